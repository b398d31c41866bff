-- What a workflow spends. Amounts are attempts, tokens and billionths of a US dollar, up to top, which stands for all that is
-- more: what a double counts exactly.
-- KEYS[1]: its hash, with a field for each reservation. KEYS[2]: late settlements, by when they were.
-- ARGV: op, id, three amounts, three ceilings (0: none), late, estimated, top.
local op, id, late, estimated, top = ARGV[1], ARGV[2], ARGV[9] == '1', ARGV[10] == '1', tonumber(ARGV[11])
local keep, known = 24 * 3600 * 1000, 3600 * 1000

local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000000 + tonumber(t[2])
local function int(n) return string.format('%.0f', n) end
local function packed(a) return int(a[1]) .. ' ' .. int(a[2]) .. ' ' .. int(a[3]) end
local function unpacked(s)
	local a = {}
	for n in string.gmatch(s, '%d+') do
		a[#a + 1] = tonumber(n)
	end
	return a
end

local had = redis.call('HMGET', KEYS[1], 'began', 'spent', 'estimated', 'id:' .. id)
local began, spent, said = tonumber(had[1] or now), unpacked(had[2] or '0 0 0'), had[4]
local settled = not said and redis.call('ZSCORE', KEYS[2], id)
local amounts = {tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])}
local fits, less, more, rough = true, {0, 0, 0}, nil, had[3] == '1'

if op == 'reserve' and not said and not settled then
	for i = 1, 3 do
		local ceiling = tonumber(ARGV[5 + i])
		if ceiling > 0 and amounts[i] > 0 and spent[i] + amounts[i] > ceiling then
			fits = false
		end
	end
	if fits then
		more = amounts
		redis.call('HSET', KEYS[1], 'id:' .. id, packed(amounts))
	end
elseif op == 'settle' and (said or late and not settled) then
	more = amounts
	if said then
		less = unpacked(said)
		redis.call('HDEL', KEYS[1], 'id:' .. id)
	end
	if late then
		redis.call('ZADD', KEYS[2], int(now), id)
		redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', '(' .. int(now - known * 1000))
		redis.call('PEXPIRE', KEYS[2], known)
	end
end

if more then
	rough = rough or estimated
	for i = 1, 3 do
		if spent[i] < top then -- from what is more than can be counted nothing can be taken
			spent[i] = math.min(math.max(spent[i] - less[i], 0) + more[i], top)
		end
	end
	redis.call('HSET', KEYS[1], 'began', int(began), 'spent', packed(spent), 'estimated', rough and '1' or '0')
	redis.call('PEXPIRE', KEYS[1], keep)
end
return {fits and 1 or 0, int(spent[1]), int(spent[2]), int(spent[3]), int(math.max(now - began, 0)), rough and 1 or 0}
