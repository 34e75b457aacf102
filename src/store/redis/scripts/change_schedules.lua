-- Creates, replaces or removes schedules. Not built from shared files: it uses no keys of a bucket.
-- KEYS  1 hash: name -> text, 2 sorted set: name -> the time at which a server must look at it, 3 sorted set: all names
-- ARGV  1 maximum number of schedules, 2 begin of a text that stands for one that is not UTF-8, by its SHA-1; for each
--       change: name, the text that it must have now ('' if there must be none), the new text ('' removes the schedule),
--       the new time ('' if none)
-- Reply for each change: 0 it has another text, 1 done, 2 there are too many schedules
-- A removal begins with a command that needs no memory and changes nothing, so that a schedule can be removed from a full
-- Redis.
local texts, times, names = unpack(KEYS)
local reply = {}
local is_expected = function(text, old)
  return text == old or (old:sub(1, #ARGV[2]) == ARGV[2] and ARGV[2] .. redis.sha1hex(text) == old)
end
redis.call('HLEN', texts)
redis.call('ZCARD', times)
redis.call('ZCARD', names)
-- Fails in a full Redis, unless the call only removes schedules.
for i = 5, #ARGV, 4 do
  if ARGV[i] ~= '' then
    redis.call('ZADD', times, 'XX', 0, '')
    break
  end
end
for i = 3, #ARGV, 4 do
  local name, old, new, time = unpack(ARGV, i, i + 3)
  local result = 1
  if not is_expected(redis.call('HGET', texts, name) or '', old) then
    result = 0
  elseif new == '' then
    redis.call('HDEL', texts, '')
    redis.call('ZREM', times, name)
    redis.call('HDEL', texts, name)
    redis.call('ZREM', names, name)
  elseif old == '' and redis.call('HLEN', texts) >= tonumber(ARGV[1]) then
    result = 2
  else
    -- Both change nothing: a right that the user lacks must show before the text is set.
    redis.call('ZADD', times, 'XX', 0, '')
    redis.call('ZREM', times, '')
    if new ~= old then redis.call('HSET', texts, name, new) end
    if old == '' then redis.call('ZADD', names, 0, name) end
    if time == '' then
      redis.call('ZREM', times, name)
    else
      redis.call('ZADD', times, time, name)
    end
  end
  reply[#reply + 1] = result
end
return reply
