-- Sets, or takes away, a word about a topic. Stands alone: not on the keys of a bucket.
-- KEYS  1 the hash of these words, 2 their version, 3 the log of changes
-- ARGV  1 topic, 2 the word ('' takes it away), 3 how many changes the log keeps,
--       4 the word as it must be before ('': whichever), else nothing is done
-- The version is the time of the change, or one more than the last: also after Redis has lost its
-- last ones, another change has another version. It is written first: should a right be missing for what follows, servers
-- read the settings again in vain, and none keeps an old one. Taking away begins with a command that needs no memory
-- and changes nothing, so a full Redis lets a topic be resumed.
if ARGV[4] ~= '' and redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[4] then
  return 0
end
local time, last = redis.call('TIME'), tonumber(redis.call('GET', KEYS[2]) or '0') or 0
local version = math.max(time[1] * 1000000 + time[2], last + 1)
local text = string.format('%d', version)
if ARGV[2] == '' then redis.call('HDEL', KEYS[1], '') end
redis.call('SET', KEYS[2], text)
redis.call('ZADD', KEYS[3], text, text .. ' ' .. ARGV[1])
redis.call('ZREMRANGEBYRANK', KEYS[3], 0, -1 - ARGV[3])
if ARGV[2] == '' then
  redis.call('HDEL', KEYS[1], ARGV[1])
else
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
end
return 0
