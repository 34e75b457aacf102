-- The end of a job that dies: it stays dead in its topic, or moves to the topic that its rules name.

-- The topic to which a job moves; nil if its key has the wrong type. The job then stays dead, and the other jobs of its
-- topic are not affected.
local function target_of(rules, topic)
  local target = rules.dead_to
  if target and target ~= topic and is_sorted_set(key('ready', target)) then return target end
end

-- Gathers the writes that make a job ready in the topic to which it moves; the caller saves the attempt. Returns that
-- topic; nil if the record is damaged, or if the rules name no topic.
local function move_dead(id, attempt, rules, topic)
  local target = target_of(rules, topic)
  local record = target and gathered_record(id)
  if not record then return nil end
  local policy = change_policy(rules.policy, 'g=;x=;e=;o=' .. topic)
  local moved = { crc = rules.crc, length = rules.length, policy = policy, topic = target }
  local new_record, text = with_rules(id, record, moved)
  if not new_record then return nil end
  save('record', id, new_record)
  attempt.count, attempt.snoozed, attempt.reservation, attempt.rules = 0, '', '-', text
  attempt.due, attempt.died = NOW, 0
  join_set('ready', target, id, NOW, parse_rules(id, text))
  register_topic(target)
  topic_shrinks(topic)
  return target
end

-- Gathers the writes for a job that dies, after it has left its set; the caller saves the attempt. Returns the topic to
-- which the job moves; nil if it stays.
local function die(id, attempt, rules, topic, died)
  leave_expiring(topic, id, rules)
  local target = move_dead(id, attempt, rules, topic)
  if target then return target end
  attempt.died = died
  join_set('dead', topic, id, died + rules.retention, rules)
end

-- Counts a job that has moved. `moved` has the number of jobs and the highest priority for each topic.
local function count_moved(moved, target, priority)
  local jobs = moved[target] or { ready = 0, highest = 0 }
  jobs.ready, jobs.highest = jobs.ready + 1, math.max(jobs.highest, priority)
  moved[target] = jobs
end
