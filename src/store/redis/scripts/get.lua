-- Reads one job; writes nothing.
-- ARGV  2 id
-- Reply {} or record, attempt record ('' if none), history ('' if none), state, due time or deadline

--- @include "shared/prelude"
--- @include "shared/jobs"

local function transition()
  local id = ARGV[2]
  local record = redis.call('HGET', POOL, id)
  if not record then return {} end
  local text = redis.call('HGET', ATTEMPTS, id)
  local _, state, time = locate_job(id, find_job(id, text).topic)
  local has_history = state == 'finished' or may_have_history(text)
  local history = has_history and history_text(id) or ''
  return { with_long_body(id, record), text or '', history, STATE_CODE[state] or 0, time or 0 }
end

--- @include "shared/guard"
--- @include "shared/each_bucket"
