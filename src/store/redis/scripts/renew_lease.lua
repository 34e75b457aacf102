-- Renews a server's lease, removes ended leases, and lists the others. Not built from shared files: it uses no keys of a
-- bucket.
-- KEYS  1 sorted set: server id → end of its lease, in Unix ms
-- ARGV  1 the server's id, 2 the length of a lease in ms
-- Reply the ids of the servers whose leases have not ended
local MAX_LEASES_READ = 1000
local leases, length = KEYS[1], tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function renew(call, id)
  return call('ZADD', leases, string.format('%.0f', now + length), id)
end
if type(renew(redis.pcall, ARGV[1])) == 'table' then
  -- A full Redis refuses the first write of a script if it needs memory, and no later write. This ZREM needs none, and
  -- removes no lease.
  redis.call('ZREM', leases, '')
  renew(redis.call, ARGV[1])
end
local living = {}
local all = redis.call('ZRANGE', leases, 0, MAX_LEASES_READ - 1, 'WITHSCORES')
for at = 1, #all, 2 do
  local id, ends = all[at], tonumber(all[at + 1])
  if ends <= now then
    redis.call('ZREM', leases, id)
  else
    -- A lease can end this late only if the clock was ahead when it was renewed: let it end after `length` from now.
    if ends > now + length then
      renew(redis.call, id)
    end
    living[#living + 1] = id
  end
end
return living
