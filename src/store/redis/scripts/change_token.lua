-- Changes the access tokens. Stands alone: not on the keys of a bucket.
-- KEYS  1 the hash of tokens: `=<name>` is a token, `@<name>` its last use, `version` a number
-- ARGV  1 'create' | 'revoke', 2 name, 3 the token
-- Reply 1 if it was done; 0 if there is one of this name already (create), or none (revoke)
-- The version is the time of the change, or one more than the last: see set_topic.lua.
local tokens, verb, name = KEYS[1], ARGV[1], ARGV[2]
local is_there = redis.call('HEXISTS', tokens, '=' .. name) == 1
if is_there == (verb == 'create') then return 0 end
local time, last = redis.call('TIME'), tonumber(redis.call('HGET', tokens, 'version') or '0') or 0
local version = string.format('%d', math.max(time[1] * 1000000 + time[2], last + 1))
if verb == 'revoke' then
  -- Frees first, so that a token can be revoked in a full Redis.
  redis.call('HDEL', tokens, '=' .. name, '@' .. name)
  redis.call('HSET', tokens, 'version', version)
else
  redis.call('HSET', tokens, '=' .. name, ARGV[3], 'version', version)
end
return 1
