-- popped -> ready or delayed by the given delay or the job's backoff; dead if attempts are spent.
-- ARGV  per job: id, reservation ('' goes by id alone), delay in ms ('' is the backoff's), error (see codec.rs)
-- Reply per job: state, topic, due time, 1 if it died by this; or refusal, '', 0, 0
local reply = {}

local function release(id, a, by_id_alone, delay, error)
  local rules = parse_rules(id, a.rules) or (find(id) or {}).rules
  local wait = delay or rules and backoff_delay(rules.backoff, a.attempt, id)
  local topic, state, score = locate(id, rules and rules.topic or a.topic)
  if by_id_alone and state ~= 'reserved' then return NOT_RESERVED, '', 0, 0 end
  -- A job whose rules cannot be read is set aside, as a pop would do.
  if not rules or not wait then rules, error = rules_aside(id, topic), DAMAGED end
  -- A reserved or dead job's due time is in its record; of another it is where the job stands.
  if state == 'ready' or state == 'delayed' then a.due = score end
  local died = 0
  take(state, topic, id)
  a.error, a.reservation, a.rules = error, '-', rules.text
  if state == 'dead' then
    place('dead', topic, id, a.died + rules.retention)
  elseif error == DAMAGED or rules.max > 0 and a.attempt >= rules.max then
    state, a.died, died = 'dead', NOW, 1
    place('dead', topic, id, NOW + rules.retention)
  else
    a.due = wait == 0 and NOW or NOW_UP + wait
    state = place_due(topic, id, a.due)
  end
  note('attempt', id, attempt_text(a))
  return STATE_CODE[state], topic, a.due, died
end

each_job(4, function(id, text, i)
  local n = #reply
  local a, refusal = judge(text, id, ARGV[i + 1])
  if a then
    reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] =
      release(id, a, ARGV[i + 1] == '', tonumber(ARGV[i + 2]), ARGV[i + 3])
  else
    reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = refusal, '', 0, 0
  end
end)
return reply
