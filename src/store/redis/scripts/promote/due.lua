-- Maximum number of due sets that a call reads at once, and in total.
local PAGE_OF_SETS, MAX_SETS = 500, 10000

-- The sets that are due, the earliest first: those of delayed jobs, of finished jobs, and the others. Sets of finished
-- jobs may stay due for a long time, so a page that has only these does not end the search.
local function due_sets()
  local delayed, others, finished = {}, {}, {}
  local now, read_names = string.format('%d', NOW), 0
  repeat
    local names = redis.call('ZRANGE', BUCKET, '-inf', now, 'BYSCORE', 'LIMIT', read_names, PAGE_OF_SETS)
    for _, set_name in ipairs(names) do
      local state, topic = string.match(set_name, '^(%l+):(.+)$')
      local list = state == 'delayed' and delayed or state == 'finished' and finished or others
      if not WORK[state] then
        redis.call('ZREM', BUCKET, set_name)
      elseif #list < 32 then
        list[#list + 1] = { set_name, state, topic }
      end
    end
    read_names = read_names + #names
  until #names < PAGE_OF_SETS or #delayed + #others > 0 or read_names >= MAX_SETS
  return delayed, others, finished
end
