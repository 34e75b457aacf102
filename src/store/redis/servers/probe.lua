-- Tries every command of the other scripts, on a key that is gone again at the end.
-- KEYS  1 a key of its own
-- Reply the commands that this user may not run, as an ACL names them
local KEY, forbidden = KEYS[1], {}

local function try(...)
  local answer = redis.pcall(...)
  local text = type(answer) == 'table' and answer.err
  -- Other errors (a full Redis, a slot that moves) are no matter of permission.
  if text and (string.find(text, 'NOPERM', 1, true) or string.find(text, "can't run this command", 1, true)
    or string.find(text, "can't access at least one of the keys", 1, true)) then
    local command = ({ ... })[1]
    forbidden[#forbidden + 1] = '+' .. string.lower(command)
  end
end

try('TIME')
try('EXISTS', KEY)
for _, write in ipairs({ { 'HSETNX', KEY, 'a', '1' }, { 'HSET', KEY, 'a', '1' } }) do try(unpack(write)) end
for _, read in ipairs({ 'HGET', 'HMGET', 'HEXISTS', 'HDEL' }) do try(read, KEY, 'a') end
try('HKEYS', KEY)
try('HGETALL', KEY)
try('ZADD', KEY, 0, 'a')
try('ZSCORE', KEY, 'a')
try('ZCARD', KEY)
try('ZCOUNT', KEY, 0, 0)
try('ZRANGE', KEY, 0, 0)
try('ZREM', KEY, 'a')
try('ZREMRANGEBYRANK', KEY, 0, 0)
try('SET', KEY, '1', 'PX', 1)
try('GET', KEY)
return forbidden
