-- Reads one job; writes nothing.
-- ARGV  2 id
-- Reply {} or record, attempt record (''), state, its due time or deadline
local id = ARGV[2]
local record = redis.call('HGET', POOL, id)
if not record then return {} end
local text = redis.call('HGET', ATTEMPTS, id)
local _, state, score = locate(id, find(id, text).topic)
return { whole(id, record), text or '', STATE_CODE[state] or 0, score or 0 }
