-- Gives a bucket another incarnation. Stands alone.
-- KEYS  1 the incarnation
-- ARGV  1 what it must be now ('' is none), 2 what it is from now on
-- Reply 1 if it was changed
-- MGET takes a key of another type for none.
if (redis.call('MGET', KEYS[1])[1] or '') ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
return 1
