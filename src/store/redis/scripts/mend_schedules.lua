-- Compares the entries of schedules with their texts, and mends the entries if requested. Not built from shared files: it
-- uses no keys of a bucket.
-- KEYS  1 hash: name -> text, 2 sorted set: name -> the time at which a server must look at it, 3 sorted set: all names
-- ARGV  1 '1' to mend, '' to report only; for each schedule: name, its text ('' if none was found), the latest time at
--       which a server must look at it ('' if it never must)
-- Reply for each schedule: 0 it is sound, or has changed, 1 the names lack it, 2 the times lack it, or have too late a
--       time for it, 3 it has entries and no text
-- A refused put, or a text that cannot be read, moves the time of a due schedule by up to a minute.
local texts, times, names = unpack(KEYS)
local now = redis.call('TIME')
local in_a_minute = now[1] * 1000 + 60000
local reply = {}
for i = 2, #ARGV, 3 do
  local name, text, latest = unpack(ARGV, i, i + 2)
  local result = 0
  local stored = redis.call('HGET', texts, name)
  local is_named, time = redis.call('ZSCORE', names, name), redis.call('ZSCORE', times, name)
  if not stored then
    if is_named or time then
      result = 3
      if ARGV[1] == '1' then
        redis.call('ZREM', names, name)
        redis.call('ZREM', times, name)
      end
    end
  elseif stored == text then
    if not is_named then
      result = 1
      if ARGV[1] == '1' then redis.call('ZADD', names, 0, name) end
    end
    if latest ~= '' and (not time or tonumber(time) > math.max(tonumber(latest), in_a_minute)) then
      result = 2
      if ARGV[1] == '1' then redis.call('ZADD', times, latest, name) end
    end
  end
  reply[#reply + 1] = result
end
return reply
