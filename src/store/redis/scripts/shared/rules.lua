-- Pool records. Their rules are everything except version, time of creation and body; codec.rs defines the form.

local function checksum(text)
  return string.sub(redis.sha1hex(text), 1, 8)
end

-- Whether a record has the form of a finished job's record.
local function is_finished(record)
  return string.byte(record) == 54 -- '6'
end

-- The rules in a record; nil if it is not a record, or belongs to a finished job (ending.lua).
local function rules_text(record)
  return string.match(record, '^4 %x+ ([^\n]+)\n')
end

-- The length of the body according to the record; nil if it is not a record.
local function body_length(record)
  if is_finished(record) then return number(string.match(record, '^%x+:(%d+) ', 20)) or 0 end
  return number(string.match(record, '^4 %x+ %x+ (%d+) '))
end

-- The record including a long body. If that body is missing, the reader of the record notices.
local function with_long_body(id, record)
  local length = body_length(record)
  if length and length > MAX_INLINE_BODY then return record .. (redis.call('HGET', BODIES, id) or '') end
  return record
end

-- nil if the rules are damaged.
local function parse_rules(id, text)
  local sum, rest = string.match(text or '', '^(%x%x%x%x%x%x%x%x)(.+)$')
  if not sum or checksum(id .. ' ' .. rest) ~= sum then return nil end
  local crc, length, policy, topic = string.match(rest, '^(%x+) (%d+) (%S*) (%S+)$')
  local parsed = crc and parse_policy(policy)
  length = number(length)
  if not (parsed and length) then return nil end
  return {
    crc = crc, length = length, retention = parsed.retention, finished_retention = parsed.finished_retention,
    priority = parsed.priority, expires_after = parsed.expires_after, expires_at = parsed.expires_at, policy = policy,
    topic = topic, text = text
  }
end

-- Formats rules that parse_rules has parsed.
local function format_rules(id, rules)
  local rest = string.format('%s %d %s %s', rules.crc, rules.length, rules.policy, rules.topic)
  return checksum(id .. ' ' .. rest) .. rest
end

-- The text of the rules under which a job with a damaged record becomes dead.
local function rules_of_damaged(id, topic)
  return format_rules(id, { crc = '00000000', length = 0, policy = 'm=1', topic = topic })
end
