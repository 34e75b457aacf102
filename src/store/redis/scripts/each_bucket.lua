-- The transition in each bucket of the call: appended to each script.

local function enter(n, first, last)
  ARGV = { CALL[1], unpack(CALL, first, last) }
  POOL, ATTEMPTS, BUCKET = KEYS[4 * n - 3], KEYS[4 * n - 2], KEYS[4 * n - 1]
  TAG = string.sub(POOL, 1, -5)
  TOPICS, BODIES = TAG .. 'topics', TAG .. 'bodies'
end

local buckets, first, replies = #KEYS / 4, 2, {}
for n = 1, buckets do
  local last = first + CALL[#CALL - buckets + n] - 1
  enter(n, first, last)
  local sound, reply = pcall(transition)
  if not sound then
    forget()
    -- An error of a command begins with its code: a text, or since Redis 7.2 a table with it.
    local text = type(reply) == 'table' and reply.err or tostring(reply)
    reply = { err = string.find(text, '^%u+ ') and text or 'ERR ' .. text }
  end
  replies[n] = reply
  first = last + 1
end
return replies
