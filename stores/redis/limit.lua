-- One exchange of one replica about one limit. All times are microseconds of this server's clock.
-- KEYS[1]: the limit: what is lacking of each meter (l1 to l4) as of a time (at), the slots in use (n), the share that was left
-- (sh) when a provider refused (sc), until when it wants nothing (su), and of each replica what it told last (r:), its slots (s:) and when it last asked for one
-- in vain (p:). KEYS[2]: the replicas by when they were last here. KEYS[3]: those with slots, by the end of their lease.
-- KEYS[4]: those that wait for a slot, by since when.
-- ARGV: replica, number, lease, patience, slots in all, slots held, refused, rest, then for each of four meters: limit a minute,
-- burst, used, lacks, missing; then the wants: how many are alike, of each meter how much, slots.
local replica, number, lease, patience = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local most, held, refused = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7] == '1'
local rest = tonumber(ARGV[8])
local alive, kept, refresh, asking = 90 * 1000000, 150 * 1000, 10 * 1000000, 1000000

local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000000 + tonumber(t[2])
local function text(n) return string.format('%.17g', n) end

local h = redis.call('HMGET', KEYS[1], 'at', 'l1', 'l2', 'l3', 'l4', 'n', 'r:' .. replica, 's:' .. replica, 'sh', 'sc', 'su')
local at, slots = tonumber(h[1]) or now, tonumber(h[6]) or 0
local cut, share, gone = tonumber(h[10]) or 0, 1, math.max(now - at, 0)
if h[9] then
	-- The share rises in steps. gained is for how long the whole of it would have had to be in force.
	local from, step, every = tonumber(h[9]), 1 / 20, 2000000
	local function steps(x) return math.min(math.floor(x / every), math.ceil((1 - from) / step)) end
	local function gained(x)
		local n = steps(x)
		return every * (n * from + step * n * (n - 1) / 2) + (x - n * every) * math.min(from + step * n, 1)
	end
	local x = math.max(now, at) - cut
	share, gone = math.min(from + step * steps(x), 1), gained(x) - gained(at - cut)
end
local rate, minute, burst, used, lacks = {}, {}, {}, {}, {}
for i = 1, 4 do
	local a = 5 * i + 4
	minute[i], burst[i], used[i] = tonumber(ARGV[a]), tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2])
	rate[i] = minute[i] * share / 60000000
	local was = tonumber(h[i + 1])
	if not h[1] then was = tonumber(ARGV[a + 3]) * rate[i] end
	lacks[i] = math.max((was or 0) - minute[i] / 60000000 * gone, 0)
end

local till = tonumber(h[11]) or 0

local function answer(granted, wait)
	local a = {granted, wait, 0, 0, 0, 0, slots, redis.call('ZCARD', KEYS[2]), math.floor(share * 1000000 + 0.5), math.max(till - now, 0)}
	for i = 1, 4 do
		if rate[i] > 0 then a[i + 2] = math.ceil(lacks[i] / rate[i] - 0.001) end
	end
	return a
end

-- What the replica told last: number, used of each meter, when it was last noted that it is there.
local last = {}
if h[7] then
	for v in string.gmatch(h[7], '%S+') do last[#last + 1] = tonumber(v) end
	if number < last[1] then return answer(0, 0) end
	for i = 1, 4 do
		local more = used[i] - last[i + 1]
		local n = math.max(lacks[i] + more, 0)
		if more > 0 then n = math.max(lacks[i], math.min(n, burst[i] + minute[i])) end
		lacks[i] = n
	end
end
local seen = last[6] or 0
if refused and now - cut >= 10000000 then cut, share = now, math.max(share / 2, 1 / 32) end
for i = 1, 4 do
	rate[i] = minute[i] * share / 60000000
	lacks[i] = math.max(lacks[i], tonumber(ARGV[5 * i + 8]))
	if rest > 0 then lacks[i] = math.max(lacks[i], burst[i] + rate[i] * rest) end
end
if rest > 0 then till = math.max(till, now + rest) end

local all = most
if share < 1 then most = math.min(math.max(math.floor(most * share), 1), most) end

-- Slots: those of replicas that are silent are given to others.
local mine = 0
if most > 0 then
	for _, r in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', text(now))) do
		slots = slots - (tonumber(redis.call('HGET', KEYS[1], 's:' .. r)) or 0)
		redis.call('HDEL', KEYS[1], 's:' .. r)
		redis.call('ZREM', KEYS[3], r)
		if r == replica then h[8] = false end
	end
	mine = held
	slots = slots - (tonumber(h[8]) or 0) + mine
end

-- before is how many replicas have waited longer for a slot.
local waits = most > 0 and tonumber(redis.call('ZSCORE', KEYS[4], replica))
local function before()
	local n = 0
	for _, r in ipairs(redis.call('ZRANGEBYSCORE', KEYS[4], '-inf', waits and '(' .. text(waits) or '+inf', 'LIMIT', 0, 64)) do
		if r ~= replica then
			if now - (tonumber(redis.call('HGET', KEYS[1], 'p:' .. r)) or 0) <= asking then
				n = n + 1
			else
				redis.call('ZREM', KEYS[4], r)
				redis.call('HDEL', KEYS[1], 'p:' .. r)
			end
		end
	end
	return n
end

local granted, wait, full, ahead = 0, 0, false, nil
local function grant(want, slot, n)
	for i = 1, 4 do
		if rate[i] > 0 then lacks[i] = lacks[i] + want[i] * n end
		used[i] = used[i] + want[i] * n
	end
	mine, slots, granted = mine + slot * n, slots + slot * n, granted + n
	if slot > 0 and waits then
		redis.call('ZREM', KEYS[4], replica)
		waits, ahead = false, nil
	end
end
local a = 29
while ARGV[a] and wait == 0 and not full do
	local n, slot, want = tonumber(ARGV[a]), math.min(tonumber(ARGV[a + 5]), all), {}
	for i = 1, 4 do want[i] = tonumber(ARGV[a + i]) end
	while n > 0 do
		if slot > 0 then
			ahead = ahead or before()
			full = slots + ahead + slot > most
			if full then break end
		end
		-- As many at a time as surely fit; where none does, one that has to wait.
		local fit, due = n, math.max(till - now, 0)
		if slot > 0 then fit = math.min(fit, waits and 1 or math.floor((most - slots - ahead) / slot)) end
		for i = 1, 4 do
			if rate[i] > 0 and want[i] > 0 then
				due = math.max(due, (lacks[i] + math.min(want[i], burst[i]) - burst[i]) / rate[i])
				fit = math.min(fit, math.max(math.floor((burst[i] - lacks[i]) / want[i]), 1))
			end
		end
		due = math.ceil(due - 0.001)
		if due > patience then
			a = #ARGV
			break
		end
		if due > 0 then
			wait = due
			grant(want, slot, 1)
			break
		end
		grant(want, slot, fit)
		n = n - fit
	end
	a = a + 6
end

if full then
	if not waits then redis.call('ZADD', KEYS[4], text(now), replica) end
	redis.call('PEXPIRE', KEYS[4], kept)
	redis.call('HSET', KEYS[1], 'p:' .. replica, text(now))
elseif waits then
	redis.call('ZREM', KEYS[4], replica)
	redis.call('HDEL', KEYS[1], 'p:' .. replica)
end
local longest = 0
for i = 1, 4 do
	if rate[i] > 0 then longest = math.max(longest, lacks[i] / rate[i] / 1000) end
end
local fresh = now - seen > refresh
if fresh then
	seen = now
	redis.call('ZADD', KEYS[2], text(now), replica)
	for _, r in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', '(' .. text(now - alive), 'LIMIT', 0, 256)) do
		redis.call('HDEL', KEYS[1], 'r:' .. r, 'p:' .. r)
		redis.call('ZREM', KEYS[2], r)
	end
	redis.call('PEXPIRE', KEYS[2], kept)
end
local told = string.format('%.17g %.17g %.17g %.17g %.17g %.17g', number, used[1], used[2], used[3], used[4], seen)
local set = {'at', text(math.max(at, now)), 'n', text(slots), 'r:' .. replica, told}
for i = 1, 4 do
	if rate[i] > 0 then
		set[#set + 1] = 'l' .. i
		set[#set + 1] = text(lacks[i])
	end
end
if cut == now then
	set[#set + 1], set[#set + 2], set[#set + 3], set[#set + 4] = 'sh', text(share), 'sc', text(cut)
end
if till > now then
	set[#set + 1] = 'su'
	set[#set + 1] = text(till)
end
if mine > 0 then
	set[#set + 1] = 's:' .. replica
	set[#set + 1] = text(mine)
	redis.call('ZADD', KEYS[3], text(now + lease), replica)
	redis.call('PEXPIRE', KEYS[3], math.ceil(kept + lease / 1000))
elseif h[8] then
	redis.call('HDEL', KEYS[1], 's:' .. replica)
	redis.call('ZREM', KEYS[3], replica)
end
redis.call('HSET', KEYS[1], unpack(set))
if fresh or mine > 0 or longest > 60000 then
	redis.call('PEXPIRE', KEYS[1], math.ceil(kept + lease / 1000 + longest))
end
return answer(granted, wait)
