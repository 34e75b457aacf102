-- Records: taken apart and checked, as codec.rs tells them; and where the jobs are that have them.

local STATES = { 'reserved', 'ready', 'delayed', 'dead' }
-- Errors as attempt records have them, each with its checksum.
local TTR_EXPIRED, DAMAGED = '79de0e4f ttr expired', 'ce00c1e2 its record is damaged'
-- What a policy without a field means. Mirrored in job/policy.rs.
local STANDARD = { ttr = 60000, max = 20, retention = 1209600000, backoff = '-' }

local function checksum(text)
  return string.sub(redis.sha1hex(text), 1, 8)
end

-- What a pool record says of a job beside its body, as one text; nil if it has not that form.
local function rules_text(record)
  return string.match(record, '^[34] %x+ ([^\n]+)\n')
end

-- How long the body of a pool record is; nil if it does not tell.
local function body_length(record)
  return number(string.match(record, '^[34] %x+ %x+ (%d+) '))
end

-- A pool record with its body, wherever that is. If it is nowhere, the reader misses it.
local function whole(id, record)
  local length = body_length(record)
  if length and length > INLINE then return record .. (redis.call('HGET', BODIES, id) or '') end
  return record
end

-- A policy in the form of schema 4, in today's.
local function policy_of_schema_4(text)
  local ttr, max, retention, trace, backoff = string.match(text, '^(%d*),(%d*),(%d*)/?([%x-]*),(%S*)$')
  if not ttr then return nil end
  local fields = {}
  for _, field in ipairs({ 't=' .. ttr, 'm=' .. max, 'd=' .. retention, 'p=' .. trace, 'b=' .. backoff }) do
    if #field > 2 then fields[#fields + 1] = field end
  end
  return table.concat(fields, ';')
end

-- The value of a field of a policy (job/policy/text.rs), or else the standard one.
local function policy_number(policy, name, standard)
  local value = string.match(policy, ';' .. name .. '=([^;]*)')
  if not value then return standard end
  return number(value)
end

-- What scripts act on of a policy; nil if they cannot read it. They copy the rest unseen.
local function parse_policy(text)
  if text == '' then return STANDARD end
  if string.find(text, '^[%d,]') then text = policy_of_schema_4(text) end
  if not text then return nil end
  local policy = ';' .. text
  local parsed = {
    ttr = policy_number(policy, 't', STANDARD.ttr), max = policy_number(policy, 'm', STANDARD.max),
    retention = policy_number(policy, 'd', STANDARD.retention),
    backoff = string.match(policy, ';b=([^;]*)') or STANDARD.backoff
  }
  return parsed.ttr and parsed.max and parsed.retention and parsed
end

-- A policy with these fields (PolicyFields::text), of which an empty one takes that field away.
local function change_policy(text, fields)
  if string.find(text, '^[%d,]') then text = policy_of_schema_4(text) end
  local left = text == '' and '' or ';' .. text
  for name, value in string.gmatch(fields, '(%w+)=([^;]*)') do
    left = string.gsub(left, ';' .. name .. '=[^;]*', '')
    if value ~= '' then left = left .. ';' .. name .. '=' .. value end
  end
  return string.sub(left, 2)
end

-- That text taken apart; nil if it is damaged.
local function parse_rules(id, text)
  local sum, rest = string.match(text or '', '^(%x%x%x%x%x%x%x%x)(.+)$')
  if not sum or checksum(id .. ' ' .. rest) ~= sum then return nil end
  local crc, length, policy, topic = string.match(rest, '^(%x+) (%d+) (%S*) (%S+)$')
  local parsed = crc and parse_policy(policy)
  length = number(length)
  if not (parsed and length) then return nil end
  return {
    crc = crc, length = length, ttr = parsed.ttr, max = parsed.max, retention = parsed.retention,
    backoff = parsed.backoff, policy = policy, topic = topic, text = text
  }
end

-- Rules as a text: the inverse of parse_rules.
local function format_rules(id, rules)
  local rest = string.format('%s %d %s %s', rules.crc, rules.length, rules.policy, rules.topic)
  return checksum(id .. ' ' .. rest) .. rest
end

-- The rules by which a job whose record is damaged is set aside.
local function rules_aside(id, topic)
  local rules = {
    crc = '00000000', length = 0, ttr = STANDARD.ttr, max = 1, retention = STANDARD.retention,
    backoff = STANDARD.backoff, policy = 'm=1', topic = topic
  }
  rules.text = format_rules(id, rules)
  return rules
end

-- A reservation as three numbers.
local function parts(reservation)
  if reservation == '-' then return 0, 0, 0 end
  return tonumber(string.sub(reservation, 1, 7), 16), tonumber(string.sub(reservation, 8, 13), 16),
    tonumber(string.sub(reservation, 14), 16)
end

local ATTEMPT = '^(%d+) (%d+) (%S+) (%d+) (%d+) (%d+) ([^\n]* (%S+))\n(.*)$'

-- An attempt record; nil if there is none, or it is damaged. Its rules are not checked here.
local function parse_attempt(text)
  if not text then return nil end
  local sum, count, reservation, due, died, ttr, rules, topic, error = string.match(text, ATTEMPT)
  if not sum then return nil end
  if reservation ~= '-' and not string.match(reservation, '^%x+$') or #reservation > 16 then return nil end
  local a = {
    attempt = number(count), reservation = reservation, due = number(due), died = number(died),
    ttr = number(ttr), rules = rules, topic = topic, error = error
  }
  if not (a.attempt and a.due and a.died and a.ttr) then return nil end
  local high, middle, low = parts(reservation)
  if not (high and middle and low) then return nil end
  return tonumber(sum) == check(a.attempt, high, middle, low, a.due, a.died, a.ttr) and a or nil
end

local function attempt_text(a)
  local high, middle, low = parts(a.reservation)
  -- The error text is appended, not formatted: it may have any bytes.
  return string.format('%d %d %s %d %d %d ', check(a.attempt, high, middle, low, a.due, a.died, a.ttr),
    a.attempt, a.reservation, a.due, a.died, a.ttr) .. a.rules .. '\n' .. a.error
end

-- The job's state and its score there.
local function state_of(topic, id)
  for _, state in ipairs(STATES) do
    local score = redis.call('ZSCORE', key(state, topic), id)
    if score then return state, time_of(score) end
  end
end

-- So many topics a script may search for jobs whose records do not tell where they are.
local searches = 500

-- The job's topic, state and score by going through the topics.
local function search(id)
  local topics = searches > 0 and redis.call('ZRANGE', TOPICS, 0, searches - 1) or {}
  searches = searches - #topics
  for _, topic in ipairs(topics) do
    local state, score = state_of(topic, id)
    if state then return topic, state, score end
  end
end

-- Where a job is: its topic (nil if that cannot be told), and its state and score (nil in no set).
local function locate(id, topic)
  if topic then
    local state, score = state_of(topic, id)
    if state then return topic, state, score end
  end
  local found, state, score = search(id)
  return found or topic, state, score
end

-- A living job: { attempt (nil before the first pop, or if it is damaged), rules (nil if they are
-- damaged), topic as its records tell it }; nil if there is no such job. `text` is its attempt record.
local function find(id, text)
  local a = parse_attempt(text)
  local rules = a and parse_rules(id, a.rules)
  if rules then return { attempt = a, rules = rules, topic = rules.topic } end
  local record = redis.call('HGET', POOL, id)
  if not record then return nil end
  local own = rules_text(record)
  rules = parse_rules(id, own)
  if a and rules then a.rules = rules.text end
  local topic = rules and rules.topic or a and a.topic or string.match(own or '', ' (%S+)$')
  return { attempt = a, rules = rules, topic = topic }
end

-- The attempt on which this reservation may act ('' goes by id alone); else
-- nil and the refusal. `text` is its record: there is one exactly when attempt > 0.
local function judge(text, id, reservation)
  local a = parse_attempt(text)
  if a then
    if reservation == '' or reservation == a.reservation then return a end
    return nil, RESERVATION_LOST
  end
  if redis.call('HEXISTS', POOL, id) == 0 then return nil, NOT_FOUND end
  return nil, reservation == '' and NEVER_POPPED or RESERVATION_LOST
end

-- The wait after an attempt in ms: the same as Backoff::delay in job/backoff.rs; nil if the text
-- is none of a backoff.
local function backoff_delay(backoff, attempt, id)
  if backoff == '-' then return 0 end
  local values = string.match(backoff, '^list:([%d,]+)$')
  if values then
    local n, wait = 0, nil
    for value in string.gmatch(values, '%d+') do
      n, wait = n + 1, number(value)
      if n == attempt then break end
    end
    return wait
  end
  local initial, factor, max, jitter = string.match(backoff, '^exp:(%d+):([%d.]+):(%d+):(-?[%d.]+)$')
  -- Factor and jitter have as many digits as it takes to tell them from all other doubles.
  initial, factor, max, jitter = number(initial), tonumber(factor), number(max), tonumber(jitter)
  if not (initial and factor and max and jitter) then return nil end
  local wait = math.min(initial * math.pow(factor, attempt - 1), max)
  local hash = 7
  for i = 1, #id do hash = (hash * 31 + string.byte(id, i)) % 65521 end
  local position = ((hash + attempt * 7919) % 65521) / 65521
  local delay = math.floor(math.min(wait * (1 - jitter + 2 * jitter * position), max))
  return delay >= 0 and delay <= max and delay or nil
end
