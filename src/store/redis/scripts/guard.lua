-- Before a transition of callers that may reach some topics alone: to them, a job of another topic
-- does not exist. It is checked here, in the transition itself: between a look and an act of its own, the
-- job could be finished, and its id be put into another topic.
-- ARGV  2 how many arguments a job has, 3 jobs; per job: patterns of its caller's topics, with blanks between them
--       ('' is all topics); then what the transition takes
local unguarded = transition

local function has(patterns, topic)
  for pattern in string.gmatch(patterns, '%S+') do
    local prefix = string.match(pattern, '^(.*)%*$')
    if pattern == topic or prefix and string.sub(topic, 1, #prefix) == prefix then return true end
  end
  return false
end

transition = function()
  local stride, jobs = tonumber(ARGV[2]), tonumber(ARGV[3])
  local own = { ARGV[1], unpack(ARGV, 4 + jobs) }
  for n = 1, jobs do
    local patterns, at = ARGV[3 + n], 2 + (n - 1) * stride
    local job = patterns ~= '' and seek(own[at], redis.call('HGET', ATTEMPTS, own[at]))
    if job then
      local topic = whereabouts(own[at], job.topic)
      -- No job has an empty id.
      if not (topic and has(patterns, topic)) then own[at] = '' end
    end
  end
  ARGV = own
  return unguarded()
end
