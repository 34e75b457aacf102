-- Changes the body or the policy in a pool record.

-- The new record, its long body (nil if it has none) and its rules; nil if the old body is to stay and is damaged or on
-- another node. `new_crc` is '' if the body stays.
local function rewrite(id, record, rules, policy, new_crc, new_body)
  local created, body = string.match(record, '^4 (%x+) [^\n]+\n(.*)$')
  if not created then return nil end
  if new_crc ~= '' then
    body = new_body
  else
    if rules.length > MAX_INLINE_BODY then body = redis.call('HGET', BODIES, id) or '' end
    if #body ~= rules.length then return nil end
  end
  local text = format_rules(id, {
    crc = new_crc ~= '' and new_crc or rules.crc, length = #body, policy = policy, topic = rules.topic
  })
  local is_long = #body > MAX_INLINE_BODY
  return '4 ' .. created .. ' ' .. text .. '\n' .. (is_long and '' or body), is_long and body, text
end

-- Gathers the writes of a rewritten record.
local function save_rewritten(id, record, long_body, rules, is_new_body)
  save('record', id, record)
  if not long_body then
    if rules.length > MAX_INLINE_BODY then erase('body', id) end
  elseif is_new_body then
    save('body', id, long_body)
  end
end

-- The record with these rules, and their text; nil if `record` is not a record. The body stays where it is.
local function with_rules(id, record, rules)
  local created, body = string.match(record, '^4 (%x+) [^\n]+(\n.*)$')
  if not created then return nil end
  local text = format_rules(id, rules)
  return '4 ' .. created .. ' ' .. text .. body, text
end

-- The same with another policy.
local function with_policy(id, record, rules, policy)
  return with_rules(id, record, { crc = rules.crc, length = rules.length, policy = policy, topic = rules.topic })
end

-- Adds the time at which the job expires, counted from this due time, to the record of a put. Returns the record and
-- that time.
local function with_expiry(id, record, due)
  local rules = parse_rules(id, rules_text(record))
  return (with_policy(id, record, rules, expire_from(rules.policy, due))), due + rules.expires_after
end
