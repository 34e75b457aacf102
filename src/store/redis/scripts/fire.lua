-- absent -> delayed or ready, like put.lua, and the schedules of the jobs that it creates advance in the same step. An
-- existing id is refused. For one Redis only, because the keys of schedules are not in the slot of the bucket.
-- ARGV  2 number of jobs, 3 the hash of schedules, 4 the sorted set of their times; for each job: name of its schedule, the
--       text that it must have now, its next text, and its next time ('' if none); then the arguments of put.lua from 2 on
-- Reply {} and nothing is done if any of the schedules has another text, or occurs twice; otherwise that of put.lua

--- @include "shared/basics"
--- @include "shared/refusals"
--- @include "shared/clock"
--- @include "put/create"
--- @include "put/put_all"

local function transition()
  local count, schedules, times = tonumber(ARGV[2]), ARGV[3], ARGV[4]
  local names, new, seen = {}, {}, {}
  for n = 1, count do
    local name, _, text, time = unpack(ARGV, 4 * n + 1, 4 * n + 4)
    if seen[name] then return {} end
    seen[name], names[n], new[n] = true, name, { text, time }
  end
  for n, text in ipairs(redis.call('HMGET', schedules, unpack(names))) do
    if text ~= ARGV[4 * n + 2] then return {} end
  end
  -- Fails before the put if the key has another type, or Redis is full.
  redis.call('ZADD', times, 'XX', 0, '')
  ARGV = { ARGV[1], unpack(ARGV, 4 * count + 5) }
  local reply = put_all(function() return EXISTS end)
  has_written = true
  local texts, next_times, ended = {}, {}, {}
  for n, name in ipairs(names) do
    if type(reply[n]) == 'number' and reply[n] > 0 then
      local text, time = unpack(new[n])
      texts[#texts + 1], texts[#texts + 2] = name, text
      if time == '' then
        ended[#ended + 1] = name
      else
        next_times[#next_times + 1], next_times[#next_times + 2] = time, name
      end
    end
  end
  if #texts > 0 then redis.call('HSET', schedules, unpack(texts)) end
  if #next_times > 0 then redis.call('ZADD', times, unpack(next_times)) end
  if #ended > 0 then redis.call('ZREM', times, unpack(ended)) end
  return reply
end

--- @include "shared/each_bucket"
