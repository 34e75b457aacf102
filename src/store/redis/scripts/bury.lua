-- popped -> dead, with an error text.
-- ARGV  per job: id, reservation ('' goes by id alone), error (see codec.rs)
-- Reply per job: state, topic, due time, 1 if it died by this; or refusal, '', 0, 0
local reply = {}

local function bury(id, a, error)
  local rules = parse_rules(id, a.rules) or (find(id) or {}).rules
  local topic, state, score = locate(id, rules and rules.topic or a.topic)
  rules = rules or rules_aside(id, topic)
  local died = state ~= 'dead'
  take(state, topic, id)
  if died then a.died = NOW end
  -- A reserved or dead job's due time is in its record already.
  if state == 'ready' or state == 'delayed' then a.due = score end
  a.error, a.reservation, a.rules = error, '-', rules.text
  note('attempt', id, attempt_text(a))
  place('dead', topic, id, a.died + rules.retention)
  return STATE_CODE.dead, topic, a.due, died and 1 or 0
end

each_job(3, function(id, text, i)
  local n = #reply
  local a, refusal = judge(text, id, ARGV[i + 1])
  if a then
    reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = bury(id, a, ARGV[i + 2])
  else
    reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = refusal, '', 0, 0
  end
end)
return reply
