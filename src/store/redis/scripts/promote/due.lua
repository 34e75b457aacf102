-- Maximum number of due sets of each kind that a call acts on.
local MAX_SETS = 32
-- How much later than others this caller acts on deadlines that are no due times, in ms.
local LAG

-- The names of due sets. If there are more than MAX_SETS, the latest and the earliest take turns, so that a set that
-- falls due now does not wait for a backlog.
local function due_names(deadlines, by)
  local now, half = string.format('%d', by), MAX_SETS / 2
  local earliest = redis.call('ZRANGE', deadlines, '-inf', now, 'BYSCORE', 'LIMIT', 0, MAX_SETS)
  if #earliest < MAX_SETS then return earliest end
  local latest = redis.call('ZRANGE', deadlines, now, '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, half)
  local names, seen = {}, {}
  for n = 1, half do
    for _, name in ipairs({ latest[n], earliest[n] }) do
      if not seen[name] then names[#names + 1] = name end
      seen[name] = true
    end
  end
  return names
end

-- The sets that are due: those of delayed jobs, of finished jobs, and the others. Names that do not belong here are
-- removed.
local function due_sets()
  local delayed, others, finished = {}, {}, {}
  local lists = { delayed = delayed, reserved = others, expiring = others, dead = others, finished = finished }
  local found = { [BUCKET] = due_names(BUCKET, NOW), [ENDS] = due_names(ENDS, NOW - LAG) }
  for deadlines, names in pairs(found) do
    for _, set_name in ipairs(names) do
      local state, topic = string.match(set_name, '^(%l+):(.+)$')
      local list = lists[state or '']
      if list and (list == delayed) == (deadlines == BUCKET) and not string.find(topic, '[^%w._:-]') then
        list[#list + 1] = { set_name, state, topic }
      else
        redis.call('ZREM', deadlines, set_name)
      end
    end
  end
  return delayed, others, finished
end
