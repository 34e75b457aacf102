-- Checks the ACL for every command of the scripts, without running the commands.
-- ARGV  1 a key of the store
-- Reply the commands that this user may not run, as an ACL names them
local KEY, forbidden = ARGV[1], {}
local NEEDED = {
  { 'TIME' }, { 'EXISTS', KEY }, { 'SET', KEY, '1' }, { 'GET', KEY }, { 'MGET', KEY },
  { 'HSET', KEY, 'a', '1' }, { 'HGET', KEY, 'a' }, { 'HMGET', KEY, 'a' },
  { 'HEXISTS', KEY, 'a' }, { 'HDEL', KEY, 'a' }, { 'HSCAN', KEY, '0' }, { 'HLEN', KEY },
  { 'ZADD', KEY, '0', 'a' }, { 'ZSCORE', KEY, 'a' }, { 'ZCARD', KEY }, { 'ZCOUNT', KEY, '0', '0' },
  { 'ZRANGE', KEY, '0', '0' }, { 'ZREM', KEY, 'a' }, { 'ZREMRANGEBYRANK', KEY, '0', '0' },
  { 'ZSCAN', KEY, '0' },
}
for _, command in ipairs(NEEDED) do
  if not redis.acl_check_cmd(unpack(command)) then
    forbidden[#forbidden + 1] = '+' .. string.lower(command[1])
  end
end
return forbidden
