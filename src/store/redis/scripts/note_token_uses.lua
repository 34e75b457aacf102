-- Records when existing access tokens were used. Not built from shared files: it uses no keys of a bucket.
-- KEYS  1 the hash of tokens: see change_token.lua
-- ARGV  for each use: name, time
-- Reply number of recorded uses
local tokens, noted = KEYS[1], 0
for at = 1, #ARGV, 2 do
  local name = ARGV[at]
  if redis.call('HEXISTS', tokens, '=' .. name) == 1 then
    redis.call('HSET', tokens, '@' .. name, ARGV[at + 1])
    noted = noted + 1
  end
end
return noted
