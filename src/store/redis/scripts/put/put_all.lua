-- Puts of new jobs.

local VERSION_AND_TIME = string.format('4 %07x%04x%04x ', math.floor(NOW / 65536), NOW % 65536, NOW % 65521)

-- The score of a job that has another priority than the standard one.
local function score_with(priority, state, due)
--- @include "shared/score"
  return score_text(score_of(state, due, { priority = priority }))
end

-- Puts the jobs in ARGV; put.lua describes the arguments and the replies. `left(id, record, topic)` returns the reply
-- about an existing id, which has no record yet if this call creates it; it only reads. Also returns whether all replies
-- are numbers.
local function put_all(left)
  local ids, reply, count = {}, {}, tonumber(ARGV[2])
  for n = 1, count do ids[n] = ARGV[1 + 2 * n] end
  if count == 0 then return reply, false end
  local living, created, are_numbers = redis.call('HMGET', POOL, unpack(ids)), {}, true
  clear_created()
  local i, first = 3 + 2 * count, 1

  while first <= count do
    local jobs, topic, options = tonumber(ARGV[i]), ARGV[i + 1], ARGV[i + 3]
    local due, state = due_time(ARGV[i + 2])
    i = i + 4
    local is_long, priority, expires = false, '', false
    if options ~= '' then
      local plus, digit, mark = string.match(options, '^(%+?)(%d?)(!?)$')
      is_long, priority, expires = plus ~= '', digit, mark ~= ''
    end
    -- Redis accepts a score as text faster than as a number.
    local score, set = due and string.format('%d', due), due and key(state, topic)
    if due and priority ~= '' then score = score_with(tonumber(priority), state, due) end
    for n = first, first + jobs - 1 do
      local id, rest = ids[n], ARGV[2 + 2 * n]
      if not due then
        reply[n] = DUE_TOO_FAR
      elseif living[n] or created[id] then
        reply[n], are_numbers = left(id, living[n], topic), false
      else
        created[id] = true
        if expires then rest = expire(id, topic, due, rest) end
        create(id, state, topic, set, due, score, VERSION_AND_TIME .. rest, is_long and ARGV[i + n - first])
        reply[n] = state == 'ready' and due * 2 + 1 or due * 2
      end
    end
    first = first + jobs
    if is_long then i = i + jobs end
  end
  write_created()
  return reply, are_numbers
end
