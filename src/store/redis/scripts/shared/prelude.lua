-- Begins most scripts that work on buckets.

--- @include "shared/basics"

--- @include "shared/refusals"

-- A longer body is in BODIES. Mirrored in codec.rs.
local MAX_INLINE_BODY = 4096
-- Captures the length of the body, the policy and the topic of a record's rules (rules.lua).
local RULES = '%x+ (%d+) (%S*) (%S+)\n'
-- A reply ends early once it has this many bytes of bodies.
local MAX_REPLY_BYTES = 524288

-- Removes the name of a topic that has lost jobs, if it has none left.
local function forget_if_empty(topic)
  local sets = {}
  for n, state in ipairs(STATES) do sets[n] = key(state, topic) end
  if redis.pcall('EXISTS', unpack(sets)) == 0 then redis.pcall('ZREM', TOPICS, topic) end
end

-- A number of at most 14 digits: sums of such numbers are exact, and no product is infinite.
local function number(text)
  return text and #text <= 14 and tonumber(text) or nil
end

-- Changes with every digit of an attempt; the same as `check` in codec.rs.
local function attempt_checksum(count, high, middle, low, due, died, ttr)
  return (count * 3 + high * 5 + middle * 7 + low * 11 + due * 13 + died * 17 + ttr * 19) % 2147483647
end

--- @include "shared/clock"
--- @include "shared/score"
