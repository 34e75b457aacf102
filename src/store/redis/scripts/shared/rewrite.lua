-- Adds the time at which the job expires, counted from this due time, to the record of a put. Returns the record and
-- that time.
local function with_expiry(id, record, due)
  local rules = parse_rules(id, rules_text(record))
  local expires_at = due + rules.expires_after
  local others = string.gsub(';' .. rules.policy, ';e=[^;]*', '')
  rules.policy = string.format('%s;e=%d', string.sub(others, 2), expires_at)
  local created, body = string.match(record, '^4 (%x+) [^\n]+(\n.*)$')
  return '4 ' .. created .. ' ' .. format_rules(id, rules) .. body, expires_at
end
