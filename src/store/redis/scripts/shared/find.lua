-- Finds jobs and the sets that hold them.

-- The state of a job, and the time in its score; nil if no set of the topic contains the job.
local function state_of(topic, id)
  for _, state in ipairs(STATES) do
    local score = redis.call('ZSCORE', key(state, topic), id)
    if score then return state, time_of(state, score) end
  end
end

-- The number of topics that a script may still search for jobs whose records do not name the right one.
local MAX_SEARCHES = 500
local searches = MAX_SEARCHES

-- The topic, state and time of a job, found by searching all topics.
local function search_topics(id)
  local topics = searches > 0 and redis.call('ZRANGE', TOPICS, 0, searches - 1) or {}
  searches = searches - #topics
  for _, topic in ipairs(topics) do
    local state, time = state_of(topic, id)
    if state then return topic, state, time end
  end
end

-- The topic of a job (nil if unknown), and its state and time (nil if no set contains it).
local function locate_job(id, topic)
  if topic then
    local state, time = state_of(topic, id)
    if state then return topic, state, time end
  end
  local found, state, time = search_topics(id)
  return found or topic, state, time
end

-- A job: { attempt (nil before the first pop, if finished, or if damaged), rules (nil if damaged), topic as its records
-- name it, ended (nil unless finished) }; nil if there is no such job. `text` is its attempt record.
local function find_job(id, text)
  local attempt = parse_attempt(text)
  local rules = attempt and parse_rules(id, attempt.rules)
  if rules then return { attempt = attempt, rules = rules, topic = rules.topic } end
  local record = redis.call('HGET', POOL, id)
  if not record then return nil end
  local ended
  rules, ended = parse_record(id, record)
  if attempt and rules then attempt.rules = rules.text end
  local topic = rules and rules.topic or attempt and attempt.topic or named_topic(record)
  return { attempt = attempt, rules = rules, topic = topic, ended = ended }
end

-- The attempt on which a caller with this reservation ('' acts by id alone) may act; otherwise nil and the refusal. `text`
-- is the attempt record.
local function authorize(text, id, reservation)
  local attempt = parse_attempt(text)
  if attempt then
    if reservation ~= '' then
      if reservation == attempt.reservation then return attempt end
      return nil, RESERVATION_LOST
    end
    if was_popped(attempt) then return attempt end
    return nil, NEVER_POPPED
  end
  local record = redis.call('HGET', POOL, id)
  if not record then return nil, NOT_FOUND end
  if is_finished(record) then return nil, FINISHED end
  return nil, reservation == '' and NEVER_POPPED or RESERVATION_LOST
end
