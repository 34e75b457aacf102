-- Records of finished jobs; codec/finished.rs defines their form.

local NO_RESERVATION = '0000000000000000'

-- Decodes hexadecimal digits to bytes.
local function bytes_of(digits)
  return (string.gsub(digits, '%x%x', function(pair) return string.char(tonumber(pair, 16)) end))
end

local function digits_of(bytes)
  return (string.gsub(bytes, '.', function(byte) return string.format('%02x', string.byte(byte)) end))
end

-- When the job of any record was created, in milliseconds; nil if the record does not have the form of one.
local function creation(record)
  local packed = string.match(record, '^6....(......)')
  local digits = packed and digits_of(packed) or string.match(record, '^4 (%x+)%x%x%x%x ')
  return digits and #digits <= 12 and tonumber(digits, 16) or nil
end

-- The rules of a finished job and how it ended; nil if its record is damaged.
local function parse_finished(id, record)
  local sum, packed = string.match(record, '^6(....)......(........)')
  local result, policy, topic, outcome, count, delay, past, last =
    string.match(record, '^(%S*) (%S*) (%S+) (%l)(%d+) (-?%d+) (%S*)()\n', 20)
  if not last or bytes_of(checksum(id .. ' ' .. string.sub(record, 6, last - 1))) ~= sum then return nil end
  local crc, length = '0', '0'
  if result ~= '' then crc, length = string.match(result, '^(%x+):(%d+)$') end
  length, count, delay = number(length), number(count), number(delay)
  if not (length and count and delay) then return nil end
  local rules = parse_rules(id, format_rules(id, { crc = crc, length = length, policy = policy, topic = topic }))
  local reservation = digits_of(packed)
  if reservation == NO_RESERVATION then reservation = '-' end
  local due = creation(record) + delay
  return rules, { count = count, due = due, reservation = reservation, outcome = outcome, past = past }
end

-- The rules of any record, nil if they are damaged, and how its job ended, nil if it is not finished.
local function parse_record(id, record)
  if is_finished(record) then return parse_finished(id, record) end
  return parse_rules(id, rules_text(record))
end

-- The topic that a damaged record names.
local function named_topic(record)
  if is_finished(record) then return string.match(record, '^%S* %S* (%S+) ', 20) end
  return string.match(rules_text(record) or '', '^%S+ %S+ %S* (%S+)')
end
