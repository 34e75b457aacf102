-- Changes the access tokens. Stands alone: not on the keys of a bucket.
-- KEYS  1 the hash of tokens: `=<name>` is a token, `@<name>` its last use, `version` a number
-- ARGV  1 'create' | 'create_admin' | 'revoke', 2 name, 3 the token
-- Reply 1 done; 2 done, the first token; 3 refused, as the first token must be made by create_admin;
--       0 refused, as there is one of this name already (create), or none (revoke)
-- The version is the time of the change, or one more than the last: see set_topic.lua.
local tokens, verb, name = KEYS[1], ARGV[1], ARGV[2]
local is_there = redis.call('HEXISTS', tokens, '=' .. name) == 1
if is_there == (verb ~= 'revoke') then return 0 end
-- Without a token the hash has at most the version.
local is_first = redis.call('HLEN', tokens) == redis.call('HEXISTS', tokens, 'version')
if is_first and verb == 'create' then return 3 end
local time, last = redis.call('TIME'), tonumber(redis.call('HGET', tokens, 'version') or '0') or 0
local version = string.format('%d', math.max(time[1] * 1000000 + time[2], last + 1))
if verb == 'revoke' then
  -- Begins with a command that needs no memory and changes nothing, so that a token can be revoked in a full Redis, and
  -- is not removed where HSET is forbidden: without another version, servers would go on accepting it.
  redis.call('HDEL', tokens, '')
  redis.call('HSET', tokens, 'version', version)
  redis.call('HDEL', tokens, '=' .. name, '@' .. name)
else
  redis.call('HSET', tokens, '=' .. name, ARGV[3], 'version', version)
end
return is_first and 2 or 1
