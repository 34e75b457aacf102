-- Changes the access tokens. Not built from shared files: it uses no keys of a bucket.
-- KEYS  1 the hash of tokens: `=<name>` is a token, `@<name>` its last use, `version` a number
-- ARGV  1 'create' | 'create_admin' | 'revoke', 2 name, 3 the token
-- Reply 1 done; 2 done, and it is the first token; 3 refused, because the first token needs create_admin; 0 refused, because
--       a token of this name exists already (create) or does not exist (revoke)
-- The version is the time of the change, or the last version plus one: see set_topic.lua.
local tokens, verb, name = KEYS[1], ARGV[1], ARGV[2]
local is_there = redis.call('HEXISTS', tokens, '=' .. name) == 1
if is_there == (verb ~= 'revoke') then return 0 end
-- If there are no tokens, the hash has at most the field `version`.
local is_first = redis.call('HLEN', tokens) == redis.call('HEXISTS', tokens, 'version')
if is_first and verb == 'create' then return 3 end
local time, last = redis.call('TIME'), tonumber(redis.call('HGET', tokens, 'version') or '0') or 0
local version = string.format('%d', math.max(time[1] * 1000000 + time[2], last + 1))
if verb == 'revoke' then
  -- Begins with a command that needs no memory and changes nothing, so that a token can be revoked in a full Redis. The
  -- version is set before the token is removed: without a new version, servers would continue to accept the token.
  redis.call('HDEL', tokens, '')
  redis.call('HSET', tokens, 'version', version)
  redis.call('HDEL', tokens, '=' .. name, '@' .. name)
else
  redis.call('HSET', tokens, '=' .. name, ARGV[3], 'version', version)
end
return is_first and 2 or 1
