-- Records of finished jobs; codec/finished.rs defines their form.

-- Decodes hexadecimal digits to bytes.
local function bytes_of(digits)
  return (string.gsub(digits, '%x%x', function(pair) return string.char(tonumber(pair, 16)) end))
end

local function digits_of(bytes)
  return (string.gsub(bytes, '.', function(byte) return string.format('%02x', string.byte(byte)) end))
end

-- The rules of a finished job, and its due time; nil if its record is damaged.
local function parse_finished(id, record)
  local sum, created = string.match(record, '^6(....)(......)')
  local result, policy, topic, delay, last = string.match(record, '^(%S*) (%S*) (%S+) %l%d+ (-?%d+) %S*()\n', 20)
  if not last or bytes_of(checksum(id .. ' ' .. string.sub(record, 6, last - 1))) ~= sum then return nil end
  local crc, length = '0', '0'
  if result ~= '' then crc, length = string.match(result, '^(%x+):(%d+)$') end
  length, delay = number(length), number(delay)
  if not (length and delay) then return nil end
  local rules = parse_rules(id, format_rules(id, { crc = crc, length = length, policy = policy, topic = topic }))
  return rules, { due = tonumber(digits_of(created), 16) + delay }
end

-- The rules of any record, nil if they are damaged; and if its job is finished, its due time.
local function parse_record(id, record)
  if is_finished(record) then return parse_finished(id, record) end
  return parse_rules(id, rules_text(record))
end

-- The topic that a damaged record names.
local function named_topic(record)
  if is_finished(record) then return string.match(record, '^%S* %S* (%S+) ', 20) end
  return string.match(rules_text(record) or '', '^%S+ %S+ %S* (%S+)')
end
