-- Sets, or takes away, a word about a topic. Stands alone: not on the keys of a bucket.
-- KEYS  1 the hash of these words, 2 their version
-- ARGV  1 topic, 2 the word ('' takes it away)
-- The version is the time of the change: also after Redis has lost its last ones, another change
-- has another version. Taking away frees first, so a full Redis lets a topic be resumed.
if ARGV[2] == '' then
  redis.call('HDEL', KEYS[1], ARGV[1])
else
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
end
local time = redis.call('TIME')
redis.call('SET', KEYS[2], string.format('%d%06d', time[1], time[2]))
return 0
