-- Jobs as decisions need them (decisions/loaded.rs).

-- The header of a record, and whether it is that of a finished job, which begins with bytes of any value.
local function header_of(record)
  local is_finished = string.byte(record) == 54 -- '6'
  local last = string.find(record, '\n', is_finished and 20 or 1, true)
  return last and string.sub(record, 1, last - 1) or record, is_finished
end

-- The state of a job in a topic, and its score; nil if no set of the topic has it.
local function look_up(id, topic)
  for _, state in ipairs(STATES) do
    local score = redis.call('ZSCORE', key(state, topic), id)
    if score then return state, score end
  end
end

-- The topics that the records of a job name: one, or two different ones.
local function named_topics(attempt, header, is_finished)
  local in_attempt = string.match(header_of(attempt), '^.* (%S+)$')
  local in_record = is_finished and string.match(header, '^%S* %S* (%S+) ', 20) or string.match(header, '^.* (%S+)$')
  if in_attempt == in_record then in_attempt = nil end
  return { in_attempt or in_record, in_attempt and in_record }
end

-- The topic, state and score of a job, looked for in the topics that its records name.
local function find_named(id, attempt, header, is_finished)
  for _, topic in ipairs(named_topics(attempt, header, is_finished)) do
    local state, score = look_up(id, topic)
    if state then return topic, state, score end
  end
end

-- The same in all topics.
local function find_anywhere(id)
  for _, topic in ipairs(redis.call('ZRANGE', TOPICS, 0, 499)) do
    local state, score = look_up(id, topic)
    if state then return topic, state, score end
  end
end

-- The texts of a job in one, which the caller reads faster than its parts: a line with the job's state, its score, its
-- topic ('' each if no set has the job) and the lengths of the next three, the first '-' without a pool record; the header
-- of this, the attempt record and the history ('' each if there is none); and the body, if it is asked for. Returns the
-- length of the body, too.
local function loaded(id, attempt, record, find, has_body)
  local has_record = record
  attempt, record = attempt or '', record or ''
  local header, is_finished = header_of(record)
  local history, body = nil, ''
  local topic, state, score = find(id, attempt, header, is_finished)
  if is_finished or attempt ~= '' and not string.find(attempt, '^%d+ %d+s? ') then
    history = redis.pcall('HGET', TAG .. 'history', id)
  end
  if type(history) ~= 'string' then history = '' end
  if has_body then
    body = string.sub(record, #header + 2)
    if body == '' then body = redis.call('HGET', BODIES, id) or '' end
  end
  return table.concat({ state or '', score or '', topic or '', has_record and #header or '-', #attempt, #history }, ' ') .. '\n' .. header .. attempt ..
    history .. body, #body
end
