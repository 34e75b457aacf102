-- Reads how many jobs there are in this bucket; writes nothing.
-- Reply how many
return { redis.call('HLEN', POOL) }
