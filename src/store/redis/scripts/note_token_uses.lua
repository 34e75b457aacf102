-- Records when existing access tokens were used. Stands alone: not on the keys of a bucket.
-- KEYS  1 the hash of tokens: see change_token.lua
-- ARGV  for each use: name, time
-- Reply how many were noted
local tokens, noted = KEYS[1], 0
for at = 1, #ARGV, 2 do
  local name = ARGV[at]
  if redis.call('HEXISTS', tokens, '=' .. name) == 1 then
    redis.call('HSET', tokens, '@' .. name, ARGV[at + 1])
    noted = noted + 1
  end
end
return noted
