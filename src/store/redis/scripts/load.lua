-- Loads jobs for decisions. A job is looked for in the topics that its records name, or in all topics.
-- ARGV  letters: 's' to search all topics, 'b' to load bodies; then ids
-- Reply: the time in microseconds; for each job its texts (loaded.lua). Ends early once it has many bytes of bodies: the
--        other jobs are to be loaded again.

--- @include "shared/basics"
--- @include "shared/loaded"

-- A call ends early once its replies have this many bytes of bodies.
local MAX_BODY_BYTES = 524288

local function transition()
  local find = string.find(ARGV[2], 's') and find_anywhere or find_named
  local has_bodies = string.find(ARGV[2], 'b')
  shared.bytes = shared.bytes or 0
  local now = CALL[1] == '' and redis.call('TIME')
  local reply, ids = { now and now[1] * 1000000 + now[2] or CALL[1] * 1000 }, { unpack(ARGV, 3) }
  if #ids == 0 then return reply end
  local attempts, records = redis.call('HMGET', ATTEMPTS, unpack(ids)), redis.call('HMGET', POOL, unpack(ids))
  for n, id in ipairs(ids) do
    if shared.bytes > MAX_BODY_BYTES then break end
    local text, bytes = loaded(id, attempts[n], records[n], find, has_bodies)
    reply[n + 1], shared.bytes = text, shared.bytes + bytes
  end
  return reply
end

--- @include "shared/each_bucket"
