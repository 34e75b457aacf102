-- Replaces `transition` for callers that may access only some topics: to them, a job of another topic does not exist.
-- The check is part of the transition. Between a separate look-up and the transition, the job could be finished and its id
-- put into another topic. Scripts for callers that may access all topics do not include this file.
--
-- ARGV  2 the number of arguments of a job, 3 the number of jobs; for each job: patterns of its caller's topics,
--       separated by blanks ('' is all topics); then the arguments of the transition
local unguarded = transition

local function allows(patterns, topic)
  for pattern in string.gmatch(patterns, '%S+') do
    local prefix = string.match(pattern, '^(.*)%*$')
    if pattern == topic or prefix and string.sub(topic, 1, #prefix) == prefix then return true end
  end
  return false
end

transition = function()
  local stride, jobs = tonumber(ARGV[2]), tonumber(ARGV[3])
  local own_arguments = { ARGV[1], unpack(ARGV, 4 + jobs) }
  for n = 1, jobs do
    local patterns, index = ARGV[3 + n], 2 + (n - 1) * stride
    local id = own_arguments[index]
    local job = patterns ~= '' and find_job(id, redis.call('HGET', ATTEMPTS, id))
    if job then
      local topic = locate_job(id, job.topic)
      -- No job has an empty id, so the transition answers that the job does not exist.
      if not (topic and allows(patterns, topic)) then own_arguments[index] = '' end
    end
  end
  ARGV = own_arguments
  return unguarded()
end
