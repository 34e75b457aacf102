-- Changes the policy in a pool record.

-- The record with these rules, and their text; nil if `record` is not a record. The body stays where it is.
local function with_rules(id, record, rules)
  local created, body = string.match(record, '^4 (%x+) [^\n]+(\n.*)$')
  if not created then return nil end
  local text = format_rules(id, rules)
  return '4 ' .. created .. ' ' .. text .. body, text
end

-- Adds the time at which the job expires, counted from this due time, to the record of a put. Returns the record and
-- that time.
local function with_expiry(id, record, due)
  local rules = parse_rules(id, rules_text(record))
  rules.policy = expire_from(rules.policy, due)
  return (with_rules(id, record, rules)), due + rules.expires_after
end
