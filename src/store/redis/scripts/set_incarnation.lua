-- Replaces the incarnation of a bucket. Not built from shared files.
-- KEYS  1 the incarnation
-- ARGV  1 the incarnation that the bucket must have now ('' if none), 2 the new incarnation
-- Reply 1 if it was changed
-- MGET returns nil for a key of another type.
if (redis.call('MGET', KEYS[1])[1] or '') ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
return 1
