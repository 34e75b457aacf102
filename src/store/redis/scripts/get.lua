-- Reads one job; writes nothing.
-- ARGV  2 id
-- Reply {} or record, attempt record (''), state, its due time or deadline
local id = ARGV[2]
local record = redis.call('HGET', POOL, id)
local a = record and find(id)
if not a then return record and { record, '', 0, 0 } or {} end
local state, score = state_of(a.topic, id)
return { record, redis.call('HGET', ATTEMPTS, id) or '', STATE_CODE[state] or 0, score or 0 }
