package reliability

import (
	"errors"
	"math"
	"testing"
	"time"
)

func TestStoryDelayedAck(t *testing.T) {
	story(t, nil, 0, `
		0us frame 0
		10us frame 1
		    50us bare 2
		100us wait
		`)
}

func TestStoryAckEveryFewFrames(t *testing.T) {
	story(t, &Config{AckEvery: 3}, 0, `
		0us frame 0
		1us frame 1
		2us frame 2
		    2us bare 3
		3us frame 3
		    53us bare 4
		100us wait
		`)
}

func TestStoryAckNow(t *testing.T) {
	story(t, nil, 0, `
		0us frame 0
		1us frame 1 now
		    1us bare 2
		100us wait
		`)
}

func TestStoryGapDuplicateAhead(t *testing.T) {
	story(t, nil, 0, `
		0us frame 0
		1us frame 2
		    1us bare 1 sack 2
		2us frame 70
		    2us bare 1 sack 2
		3us frame 1
		    3us bare 3
		4us frame 2
		    4us duplicate
		    4us bare 3
		5us frame 1027
		    5us ahead
		6us frame 1026
		    6us bare 3
		7us count
		    7us accepted 5, reordered 3, duplicates 1
		`)
}

// A gap is lost when it is a reordering window late, and only what is missing
// goes again.
func TestStoryFastRetransmit(t *testing.T) {
	story(t, nil, 0, `
		0us push 4
		    0ns send 0 1 2 3
		20us ack 4
		100us push 6
		    100us send 4 5 6 7 8! 9
		120us ack 4 sack 5-7 9
		    130us again 4
		    130us again 8
		150us ack 8 sack 9
		151us ack 10
		160us show
		    160us window 9.80, 0 in flight, 0 lost, rtt 20us, rto 10ms
		160us count
		    160us sent 10, fast 2, cuts 1
		`)
}

// A frame that is lost again goes again, because one sent later has arrived.
func TestStoryLostTwice(t *testing.T) {
	story(t, nil, 0, `
		0us push 4
		    0ns send 0 1 2 3
		20us ack 4
		100us push 6
		    100us send 4 5 6 7 8! 9
		120us ack 4 sack 5-9
		    130us again 4
		140us push 2
		    140us send 10 11
		160us ack 4 sack 5-11
		    160us again 4
		190us ack 12
		190us show
		    190us window 10.50, 0 in flight, 0 lost, rtt 20us, rto 10ms
		`)
}

// The time to a tail probe runs from the newest frame in flight, although the first one set the timer.
func TestStoryProbeAfterNewest(t *testing.T) {
	story(t, nil, 0, `
		0us push 4
		    0ns send 0 1 2 3
		20us ack 4
		100us push 1
		    100us send 4
		400us push 1
		    400us send 5
		    750us again 5
		770us ack 4 sack 5
		    770us again 4
		790us ack 6
		800us push 1
		    800us send 6
		1100us push 1
		    1100us send 7
		1200us ack 8
		1900us count
		    1900us sent 8, fast 1, probes 1, cuts 1
		`)
}

// TestProbeDespiteNewFrames: a sender whose frames are never acknowledged probes after a retransmission timeout, although
// it keeps sending new frames.
func TestProbeDespiteNewFrames(t *testing.T) {
	const every, start, rto = probeMin, 1, 10_000_000
	var s Sender
	s.Init(&Config{Window: MaxWindow, InitialWindow: MaxWindow, MinRTO: rto}, 0)
	for now := int64(start); s.Room(now) > 0; now += every {
		if err := s.OnTimer(now); err != nil {
			t.Fatal(err)
		}
		if _, _, ok := s.Retransmit(now); ok {
			if late := now - start; late < rto || late >= rto+every {
				t.Errorf("the first probe is sent after %d ns, want %d", late, rto)
			}
			return
		}
		s.Push(now, Sent{}, false)
	}
	t.Errorf("no probe after %d frames", s.InFlight())
}

// When the tail is lost, nothing later can tell: a probe does.
func TestStoryTailProbe(t *testing.T) {
	story(t, nil, 0, `
		0us push 4
		    0ns send 0 1 2 3
		20us ack 4
		100us push 4
		    100us send 4 5 6 7
		120us ack 5
		    470us again 7
		491us ack 5 sack 7
		    491us again 5
		    491us again 6
		512us ack 8
		520us show
		    520us window 7.00, 0 in flight, 0 lost, rtt 20us, rto 10ms
		520us count
		    520us sent 8, fast 2, probes 1, cuts 1
		`)
}

func TestStoryBackOffAndGiveUp(t *testing.T) {
	s := story(t, nil, 0, `
		0us push 2
		    0ns send 0 1
		20us ack 2
		1ms push 1
		    1ms send 2
		    1350us again 2
		    1700us again 2
		    2400us again 2
		    3100us again 2
		    4500us again 2
		    5900us again 2
		    8700us again 2
		    11500us again 2
		    21500us again 2
		    41500us again 2
		    81500us again 2
		    161500us again 2
		    321500us again 2
		    641500us again 2
		    1281500us again 2
		    2281500us again 2
		    3281500us again 2
		    4281500us again 2
		    5281500us again 2
		    6281500us again 2
		    7281500us again 2
		    8281500us again 2
		    9281500us again 2
		    10281500us reliability: peer is unreachable: no acknowledgement in 16 tries, last heard 10.281s ago: is the peer running, and are the interfaces up on one segment?
		20s wait
		`)
	s.Sender.Init(nil, 0)
	s.Push(1, Sent{}, false)
	var err error
	for err == nil && s.Sender.Deadline() != math.MaxInt64 {
		s.now = s.Sender.Deadline()
		err = s.OnTimer(s.now)
		s.Retransmit(s.now)
	}
	var detail *UnreachableError
	if !errors.Is(err, ErrUnreachable) || !errors.As(err, &detail) || detail.Tries != 16 {
		t.Fatalf("gave up with %v", err)
	}
	if detail.Silent < 10*time.Second || detail.Silent > 13*time.Second || detail.Silent != time.Duration(s.now-1) {
		t.Errorf("gave up after %v at %d", detail.Silent, s.now)
	}
}

// A peer that is heard but acknowledges nothing is given up later.
func TestStoryHeardWithoutProgress(t *testing.T) {
	story(t, &Config{MaxTries: 2, MaxRTO: 10_000_000}, 0, `
		0us push 1
		    0ns send 0
		20us ack 1
		1ms push 1
		    1ms send 1
		    1350us again 1
		    1700us again 1
		    2400us again 1
		    3100us again 1
		    4500us again 1
		    5900us again 1
		    8700us again 1
		    11500us again 1
		    21500us again 1
		25ms ack 1
		    31500us again 1
		35ms ack 1
		    41500us again 1
		45ms ack 1
		    51500us again 1
		55ms ack 1
		    61500us again 1
		65ms ack 1
		    71500us again 1
		75ms ack 1
		    81500us again 1
		85ms ack 1
		    91500us reliability: peer is unreachable: no acknowledgement in 8 tries, last heard 7ms ago: is the peer running, and are the interfaces up on one segment?
		100ms wait
		`)
}

// The peer does nothing for 5 s; what it says then shows that all was lost.
func TestStoryBlackhole(t *testing.T) {
	story(t, nil, 0, `
		0us push 4
		    0ns send 0 1 2 3
		20us ack 4
		1ms push 8
		    1ms send 4 5 6 7 8! 9 10 11
		    1350us again 11
		    1700us again 11
		    2400us again 11
		    3100us again 11
		    4500us again 11
		    5900us again 11
		    8700us again 11
		    11500us again 11
		    21500us again 4
		    41500us again 4
		    81500us again 4
		    161500us again 4
		    321500us again 4
		    641500us again 4
		    1281500us again 4
		    2281500us again 4
		    3281500us again 4
		    4281500us again 4
		5s wait
		    5281500us again 4
		5281600us ack 5
		    5281600us again 5
		5281620us ack 6
		    5281620us again 6
		    5281620us again 7
		5281640us ack 8
		    5281640us again 8
		    5281640us again 9
		    5281640us again 10
		    5281640us again 11
		5281660us ack 12
		5281660us show
		    5281660us window 8.12, 0 in flight, 0 lost, rtt 20us, rto 10ms
		5281660us count
		    5281660us sent 12, fast 7, probes 8, timeouts 11
		`)
}

// After long silence, any word from the peer brings the next try near.
func TestStoryWordAfterSilence(t *testing.T) {
	story(t, nil, 0, `
		0us push 4
		    0ns send 0 1 2 3
		20us ack 4
		1ms push 1
		    1ms send 4
		    1350us again 4
		    1700us again 4
		    2400us again 4
		    3100us again 4
		    4500us again 4
		    5900us again 4
		    8700us again 4
		    11500us again 4
		    21500us again 4
		    41500us again 4
		    81500us again 4
		    161500us again 4
		    321500us again 4
		400ms ack 4
		    410ms again 4
		415ms ack 5
		`)
}

// A time-out that was only the peer's sleep costs neither the window nor a
// second copy of what is under way.
func TestStoryPeerSlept(t *testing.T) {
	story(t, nil, 0, `
		0us push 4
		    0ns send 0 1 2 3
		20us ack 4
		1ms push 8
		    1ms send 4 5 6 7 8! 9 10 11
		    1350us again 11
		    1700us again 11
		    2400us again 11
		    3100us again 11
		    4500us again 11
		    5900us again 11
		    8700us again 11
		    11500us again 11
		    21500us again 4
		25ms show
		    25ms window 1.00, 8 in flight, 0 lost, rtt 20us, rto 20ms
		25ms ack 8
		25ms show
		    25ms window 14.00, 4 in flight, 0 lost, rtt 37500ns, rto 10ms
		25100us ack 12
		25100us count
		    25100us sent 12, probes 8, timeouts 1, undone 1
		`)
}

func TestStoryWrapAround(t *testing.T) {
	story(t, nil, math.MaxUint32-1, `
		0us push 5
		    0ns send 0 1 2 3 4!
		0us frame 0
		1us frame 2
		    1us bare 1 sack 2
		2us frame 3
		    2us bare 1 sack 2-3
		3us frame 1
		    3us bare 4
		20us ack 1 sack 3
		    30us again 1
		    30us again 2
		35us ack 1 sack 3-4
		40us ack 5
		41us frame 2
		    41us duplicate
		    41us bare 4
		`)
}

// Frame 70 is overtaken by 64 others and goes again, but the answer comes too
// soon for that one: the window is as before, and frame 140, which is as late,
// does not go again.
func TestStoryReorderBySixtyFour(t *testing.T) {
	story(t, &Config{InitialWindow: 80}, 0, `
		0us push 70
		    0ns send 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39! 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64 65 66 67 68 69
		20us ack 70
		100us push 70
		    100us send 70 71 72 73 74 75 76 77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92 93 94 95 96 97 98 99 100 101 102 103 104 105 106 107 108 109 110 111 112 113 114 115 116 117 118 119 120 121 122 123 124 125 126 127 128 129 130 131 132 133 134 135 136 137 138 139
		120us ack 70 sack 71-73
		    130us again 70
		135us show
		    135us window 105.00, 70 in flight, 0 lost, rtt 20us, rto 10ms
		139us ack 70 sack 71-134
		139us ack 140
		140us show
		    140us window 150.00, 0 in flight, 0 lost, rtt 24453ns, rto 10ms
		140us count
		    140us sent 140, fast 1, needless 1, cuts 1, undone 1
		200us push 70
		    200us send 140 141 142 143 144 145 146 147 148 149 150 151 152 153 154 155 156 157 158 159 160 161 162 163 164 165 166 167 168 169 170 171 172 173 174 175 176 177 178 179 180 181 182 183 184 185 186 187 188 189 190 191 192 193 194 195 196 197 198 199 200 201 202 203 204 205 206 207 208 209
		220us ack 140 sack 141-143
		239us ack 140 sack 141-204
		239us ack 210
		240us show
		    240us window 150.00, 0 in flight, 0 lost, rtt 27436ns, rto 10ms
		`)
}

// A frame that comes 9 us late teaches the Sender to wait for one that comes
// 11 us late.
func TestStoryReorderLearned(t *testing.T) {
	story(t, nil, 0, `
		0us push 4
		    0ns send 0 1 2 3
		20us ack 4
		100us push 4
		    100us send 4 5 6 7
		120us ack 4 sack 5-7
		129us ack 8
		200us push 4
		    200us send 8 9 10 11
		220us ack 8 sack 9-11
		231us ack 12
		240us show
		    240us window 10.00, 0 in flight, 0 lost, rtt 22236ns, rto 10ms
		`)
}

func TestStoryWindowAsks(t *testing.T) {
	story(t, &Config{Window: 8, InitialWindow: 8}, 0, `
		0us push 20
		    0ns send 0 1 2 3! 4 5 6 7!
		20us ack 4
		    20us send 8 9 10 11!
		30us ack 8
		    30us send 12 13 14 15!
		40us ack 16
		    40us send 16 17 18 19!
		50us ack 20
		60us push 1
		    60us send 20
		80us ack 21
		90us push 1
		    90us send 21
		`)
}

// Below one frame, frames go one at a time with more than a round trip between.
func TestStoryPacing(t *testing.T) {
	story(t, &Config{InitialWindow: 1}, 0, `
		0us push 6
		    0ns send 0!
		    350us again 0
		370us ack 1
		    370us send 1!
		370us show
		    370us window 0.50, 1 in flight, 0 lost, rtt 0ns, rto 10ms
		390us ack 2
		    390us send 2!
		410us ack 3
		    430us send 3!
		445us ack 4
		460us show
		    460us window 0.62, 0 in flight, 0 lost, rtt 19375ns, rto 10ms
		    465555ns send 4!
		480us ack 5
		    496555ns send 5!
		520us ack 6
		`)
}

func TestStoryInvalidAcks(t *testing.T) {
	s := story(t, nil, 0, `
		0us push 4
		    0ns send 0 1 2 3
		20us ack 5
		20us ack 2 sack 4
		20us ack 2 sack 70
		20us ack -1 sack 4
		20us ack -2000000000
		20us show
		    20us window 10.00, 4 in flight, 0 lost, rtt 0ns, rto 10ms
		20us ack 2 sack 3
		21us ack -1 sack 3
		`)
	if got := s.Sender.Stats().Invalid; got != 5 {
		t.Errorf("counted %d invalid acknowledgements, want 5", got)
	}
	for _, more := range [][]byte{make([]byte, 7), make([]byte, MaxSack+8)} {
		if _, valid := s.OnAck(s.now, s.first, 0, more); valid {
			t.Errorf("took %d bytes of further bits", len(more))
		}
	}
}

// A wire that swallows acknowledgements from the first one on leaves frames that were
// sent once, long before they are acknowledged. How long is not taken for the round
// trip, which the pace would follow.
func TestStoryBlackoutFirst(t *testing.T) {
	story(t, nil, 0, `
		0us push 5
		    0ns send 0 1 2 3 4!
		    350us again 4
		    700us again 4
		    1400us again 4
		    2100us again 4
		    3500us again 4
		    4900us again 4
		    7700us again 4
		    10500us again 4
		    20500us again 0
		    40500us again 0
		    80500us again 0
		    160500us again 0
		    320500us again 0
		    640500us again 0
		    1280500us again 0
		    2280500us again 0
		    3280500us again 0
		    4280500us again 0
		5000000us ack 5
		5000000us show
		    5s window 15.00, 0 in flight, 0 lost, rtt 10ms, rto 30050us
		`)
}
