-- Sets or removes a setting of a topic. Not built from shared files: it uses no keys of a bucket.
-- KEYS  1 the hash of this setting, 2 the version of all settings, 3 the log of changes
-- ARGV  1 topic, 2 the new value ('' removes it), 3 number of changes that the log keeps, 4 the value that the setting must
--       have now ('' is any value, '-' none), 5 the topic to which dead jobs move by this value ('' if none)
-- Reply 0, or 1 and nothing is done if the setting has another value now, or if the topic of ARGV[5] leads back to the
--       first, or over more than 1,000 topics
-- The version is the time of the change, or the last version plus one. So two changes never have the same version, even
-- if Redis has lost the last changes. The version is written first: if a right is missing for the later commands, servers
-- read unchanged settings once more, but none keeps an outdated one. A removal begins with a command that needs no memory
-- and changes nothing, so that a topic can be resumed in a full Redis.
if ARGV[4] ~= '' and (redis.call('HGET', KEYS[1], ARGV[1]) or '-') ~= ARGV[4] then
  return 1
end
local target, row = ARGV[5], 0
while target and target ~= '' do
  if target == ARGV[1] or row == 1000 then return 1 end
  target, row = string.match(redis.call('HGET', KEYS[1], target) or '', '"dead_to":"([^"]*)"'), row + 1
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
