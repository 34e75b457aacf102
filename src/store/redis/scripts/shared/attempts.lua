-- Attempt records; codec.rs defines the form. A job has one from its first pop on, and if it has expired. After a kick, only
-- the mark of the history may be left, which parses as no record.

local ATTEMPT = '^(%d+) (%d+)(h?)(s?) (%S+) (%d+) (%d+) (%d+) ([^\n]* (%S+))\n(.*)$'

-- A reservation as three numbers.
local function reservation_parts(reservation)
  if reservation == '-' then return 0, 0, 0 end
  return tonumber(string.sub(reservation, 1, 7), 16), tonumber(string.sub(reservation, 8, 13), 16),
    tonumber(string.sub(reservation, 14), 16)
end

-- Parses an attempt record; returns nil if there is none or it is damaged. Does not check the rules in the record.
local function parse_attempt(text)
  if not text then return nil end
  local sum, count, mark, snoozed, reservation, due, died, ttr, rules, topic, error = string.match(text, ATTEMPT)
  if not sum then return nil end
  if reservation ~= '-' and not string.match(reservation, '^%x+$') or #reservation > 16 then return nil end
  local attempt = {
    count = number(count), mark = mark, snoozed = snoozed, reservation = reservation, due = number(due),
    died = number(died), ttr = number(ttr), rules = rules, topic = topic, error = error
  }
  if not (attempt.count and attempt.due and attempt.died and attempt.ttr) then return nil end
  local high, middle, low = reservation_parts(reservation)
  if not (high and middle and low) then return nil end
  local expected = attempt_checksum(attempt.count, high, middle, low, attempt.due, attempt.died, attempt.ttr)
  return tonumber(sum) == expected and attempt or nil
end

-- Whether a consumer has popped the job, even if none of its attempts counts.
local function was_popped(attempt)
  return attempt.count > 0 or attempt.snoozed ~= ''
end

local function format_attempt(attempt)
  local high, middle, low = reservation_parts(attempt.reservation)
  local sum = attempt_checksum(attempt.count, high, middle, low, attempt.due, attempt.died, attempt.ttr)
  -- The error is appended and not formatted: it may contain any byte.
  return string.format('%d %d%s%s %s %d %d %d ', sum, attempt.count, attempt.mark, attempt.snoozed, attempt.reservation,
    attempt.due, attempt.died, attempt.ttr) .. attempt.rules .. '\n' .. attempt.error
end
