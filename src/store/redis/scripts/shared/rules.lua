-- Pool records. Their rules are everything except version, time of creation and body; codec.rs defines the form.

local function checksum(text)
  return string.sub(redis.sha1hex(text), 1, 8)
end

-- nil if the record does not have the form of one.
local function rules_text(record)
  return string.match(record, '^[345] %x+ ([^\n]+)\n')
end

-- nil if the record does not have the form of one.
local function body_length(record)
  return number(string.match(record, '^[345] %x+ %x+ (%d+) '))
end

-- The record including a long body. If that body is missing, the reader of the record notices.
local function with_long_body(id, record)
  local length = body_length(record)
  if length and length > MAX_INLINE_BODY then return record .. (redis.call('HGET', BODIES, id) or '') end
  return record
end

-- nil if the rules are damaged. The tail is '' unless the job is finished (finished.lua).
local function parse_rules(id, text)
  local sum, rest = string.match(text or '', '^(%x%x%x%x%x%x%x%x)(.+)$')
  if not sum or checksum(id .. ' ' .. rest) ~= sum then return nil end
  local crc, length, policy, topic, tail = string.match(rest, '^(%x+) (%d+) (%S*) (%S+)(.*)$')
  local parsed = crc and parse_policy(policy)
  length = number(length)
  if not (parsed and length) then return nil end
  return {
    crc = crc, length = length, ttr = parsed.ttr, max_attempts = parsed.max_attempts, retention = parsed.retention,
    finished_retention = parsed.finished_retention, backoff = parsed.backoff, policy = policy, topic = topic,
    tail = tail, text = text
  }
end

-- When the job was created, as the record has it and in milliseconds; nil if the record does not have the form of one.
local function creation(record)
  local text, digits = string.match(record, '^[345] ((%x+)%x%x%x%x) ')
  if not text or #digits > 11 then return nil end
  return text, tonumber(digits, 16)
end

-- How a job ended, by its record and the tail of its rules; nil if it is not finished. codec.rs defines the form.
local function parse_ending(record, tail)
  local count, delay, reservation, outcome = string.match(tail, '^ (%d+) (-?%d+) (%S+) (%l)$')
  local _, created = creation(record)
  count, delay = number(count), number(delay)
  if not (created and count and delay) then return nil end
  return { count = count, due = created + delay, reservation = reservation, outcome = outcome }
end

-- The inverse of parse_rules.
local function format_rules(id, rules)
  local rest = string.format('%s %d %s %s', rules.crc, rules.length, rules.policy, rules.topic) .. (rules.tail or '')
  return checksum(id .. ' ' .. rest) .. rest
end

-- The rules under which a job with a damaged record becomes dead.
local function rules_of_damaged(id, topic)
  local rules = {
    crc = '00000000', length = 0, ttr = DEFAULT_POLICY.ttr, max_attempts = 1, retention = DEFAULT_POLICY.retention,
    finished_retention = 0, backoff = DEFAULT_POLICY.backoff, policy = 'm=1', topic = topic, tail = ''
  }
  rules.text = format_rules(id, rules)
  return rules
end
