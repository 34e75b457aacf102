-- Histories of jobs, in a hash of their own; job/history/text.rs and codec/history.rs define the form. A history that is
-- damaged, or whose key has another type, counts as empty: it never stops a transition.

local NO_HOLD = { reservation = '-', started = '-', consumer = '!' }

-- Whether the job of this attempt record (nil or false if it has none) may have a history: the record is marked,
-- damaged, or only the mark of a job that was kicked.
local function may_have_history(text)
  return text and not string.find(text, '^%d+ %d+s? ') or false
end

-- Parses a history, whose entries stay one text; returns nil if it is damaged.
local function parse_history(id, text)
  local sum, reservation, started, consumer, entries =
    string.match(text, '^1 (%x%x%x%x%x%x%x%x) (%S+) (%S+) (%S+)\n(.*)$')
  if not sum or checksum(id .. ' ' .. string.sub(text, 12)) ~= sum then return nil end
  return { reservation = reservation, started = started, consumer = consumer, entries = entries }
end

local function format_history(id, history)
  local text = history.reservation .. ' ' .. history.started .. ' ' .. history.consumer .. '\n' .. history.entries
  return '1 ' .. checksum(id .. ' ' .. text) .. ' ' .. text
end

-- The text of a job's history; nil if it has none.
local function history_text(id)
  local found = redis.pcall('HGET', TAG .. 'history', id)
  return type(found) == 'string' and found or nil
end

-- The history of the job with this attempt record. It has a hold only if the hold belongs to the reservation.
local function read_history(id, text, reservation)
  local found = may_have_history(text) and history_text(id)
  local history = found and parse_history(id, found) or { entries = '' }
  if not history.reservation or history.reservation ~= reservation then
    for name, value in pairs(NO_HOLD) do history[name] = value end
  end
  return history
end

-- The history of a job that a named consumer pops.
local function with_consumer(id, text, reservation, consumer)
  local history = read_history(id, text, '-')
  history.reservation, history.started, history.consumer = reservation, '-', consumer
  return format_history(id, history)
end
