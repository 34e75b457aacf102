-- The reply for a job that became ready: its topic. If the job has another priority than the standard one, or expires, its
-- priority and the time at which it expires follow, each after a blank.
local function readied(topic, rules)
  if not rules or rules.priority == STANDARD_PRIORITY and not rules.expires_at then return topic end
  return topic .. ' ' .. rules.priority .. (rules.expires_at and string.format(' %d', rules.expires_at) or '')
end
