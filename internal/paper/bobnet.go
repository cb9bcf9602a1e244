package paper

import (
	"math"
	"time"

	"github.com/bobnet-go/bobnet/internal/plot"
)

// FastEthernet describes the machines with Intel and Tulip cards: dual 200 MHz Pentium Pro,
// FreeBSD, back to back. The paper states 3 to 4 us for the routines: 3 us is assumed for a
// shortest frame, and 4 us for a full frame.
func FastEthernet() *Ethernet {
	return &Ethernet{
		Name: "fastethernet", Bandwidth: 100e6,
		Routine: 3 * time.Microsecond, PerFull: time.Microsecond,
		Devices: 18 * time.Microsecond, Turn: 5 * time.Microsecond,
	}
}

// Yellowfin describes the same machines with the prototype of a Gigabit card. The card's bursts on
// the PCI bus are too short, and limit its bandwidth.
func Yellowfin() *Ethernet {
	e := FastEthernet()
	e.Name, e.Bandwidth, e.Bus = "yellowfin", 1e9, 1e6/0.0437
	return e
}

func bobnetPaper() *Paper {
	const slopes = "5, figure 6"
	return &Paper{
		Name:  "bobnet",
		Title: "Csanady, Wyckoff: Bobnet: high-performance message passing for commodity networking components",
		Profiles: []Profile{
			{"fastethernet", "dual 200 MHz Pentium Pro, FreeBSD; Intel 82558 or Digital 21140, 100 Mb/s, back to back", []Constant{
				fixed("bandwidth", 100, "Mb/s", "sec5.ethernet_mbps", ""),
				fixed("routine, shortest frame", 3, "us", "sec5.routine_least_us", "the paper states 3 to 4 us. The minimum is assumed to be the time for a shortest frame"),
				fixed("routine, full frame", 4, "us", "sec5.routine_most_us", "the maximum of 3 to 4 us is assumed to be the time for a full frame"),
				fixed("devices", 18, "us", "sec5.devices_us", "includes the time of a shortest frame on the cable, which the paper does not state separately"),
				fixed("turn", 5, "us", "sec5.turn_us", "the program's time between a receive and the next send"),
			}},
			{"yellowfin", "the same machines with a Packet Engines G-NIC, 1 Gb/s", []Constant{
				fixed("bus", 1/0.0437, "MB/s", "fig6.bobnet_yellowfin", "bursts on the PCI bus limit the card; the paper has no other number for them"),
				fixed("bandwidth", 1000, "Mb/s", "sec5.gigabit_mbps", ""),
			}},
		},
		Notes: []string{"The measured programs use package vipl over a model of two machines, in which the kernel, the devices and the cable take the profile's times (internal/paper/ethernet.go). The values of TCP are not measured: they are arithmetic."},
		Left: []Left{
			{"3.2", "the fast trap into the kernel, less than 1 us", "the model's machines make no system calls; the turn and the routines include the trap's time"},
			{"4 and 5", "the special driver, which saves about 1 us on each side", "the paper measured its figures with the generic driver, and our model represents this driver"},
			{"5, figure 5", "the latency of the Gigabit card, which is larger than Fast Ethernet's", "the paper draws it without a number. The model gives the Gigabit card the latency of the other cards, so our latency is too short"},
			{"5, figures 3 to 5", "the latency of TCP, and all points of the curves", "our copy of the paper has no drawings, and TCP is arithmetic here"},
			{"1.3 and 5", "U-Net's latency, the same as Bobnet's", "it is another program on the same card, and is not part of Bobnet"},
		},
		Items: []Item{
			{Name: "sec5.ethernet_mbps", Place: "5", Says: "bandwidth of the Intel and Tulip cards", Kind: Input, On: OnConstant, Published: 100, Unit: "Mb/s"},
			{Name: "sec5.gigabit_mbps", Place: "5", Says: "bandwidth of the Gigabit card on the cable", Kind: Input, On: OnConstant, Published: 1000, Unit: "Mb/s"},
			{Name: "sec5.routine_least_us", Place: "5", Says: "time of the transmit routine and of the receive routine, each, minimum", Kind: Input, On: OnConstant, Published: 3, Unit: "us"},
			{Name: "sec5.routine_most_us", Place: "5", Says: "time of the transmit routine and of the receive routine, each, maximum", Kind: Input, On: OnConstant, Published: 4, Unit: "us"},
			{Name: "sec5.devices_us", Place: "5", Says: "approximate time within the network devices", Kind: Input, On: OnConstant, Published: 18, Unit: "us"},
			{Name: "sec5.turn_us", Place: "5", Says: "approximate time from the end of the receive routine to the next send", Kind: Input, On: OnConstant, Published: 5, Unit: "us"},
			{Name: "fig3.bandwidth_mbps", Place: "abstract; 5, figure 3", Says: "highest bandwidth of user payload, ping-pong", Kind: Output, Published: 96, Unit: "Mb/s", From: from("8 divided by the slope; other costs are negligible for a megabyte", nil, "fig6.bobnet_intel")},
			{Name: "fig5.one_way_us", Place: "abstract; 8", Says: "one-way latency of the smallest message; the paper states an upper limit", Kind: Output, Published: 30, Unit: "us", Below: true},
			{Name: "fig5.level", Place: "5", Says: "beyond about 10 kB, the time of a message grows only by the slope of figure 6: the slope from 10 to 100 kB is within 5 % of the slope from 100 kB to 1 MB", Kind: Shape},
			{Name: "fig4.faster", Place: "5", Says: "the Gigabit card is faster than Fast Ethernet by nearly a factor of two: 1.5 to 2.1", Kind: Shape},
			{Name: "fig6.bobnet_intel", Place: slopes, Says: "slope of long messages", Kind: Output, Published: 0.0829, Unit: "us/byte"},
			{Name: "fig6.bobnet_tulip", Place: slopes, Says: "slope of long messages", Kind: Output, Published: 0.0830, Unit: "us/byte", From: from("the same slope, because the model has one card for both", sum, "fig6.bobnet_intel")},
			{Name: "fig6.bobnet_yellowfin", Place: slopes, Says: "slope of long messages; it fixes the rate of the bus", Kind: Input, Published: 0.0437, Unit: "us/byte"},
			{Name: "fig6.tcp_intel", Place: slopes, Says: "slope of TCP: full frames with 52 bytes of headers, at the cable's rate", Kind: Derived, On: OnNumbers, Published: 0.0859, Unit: "us/byte", From: from("1,538 bytes on the cable for 1,448 bytes of payload", nil, "sec5.ethernet_mbps")},
			{Name: "fig6.tcp_tulip", Place: slopes, Says: "slope of TCP, computed in the same way", Kind: Derived, Published: 0.0855, Unit: "us/byte", From: from("the same slope", sum, "fig6.tcp_intel")},
			{Name: "fig6.tcp_yellowfin", Place: slopes, Says: "slope of TCP: the same frames at the rate of the bus", Kind: Derived, On: OnNumbers, Published: 0.0497, Unit: "us/byte", From: from("a full frame at the rate of the bus for 1,448 bytes of payload", nil, "fig6.bobnet_yellowfin")},
		},
		Experiments: []Experiment{
			{"figures 3 to 6", []string{
				"sec5.ethernet_mbps", "sec5.gigabit_mbps", "sec5.routine_least_us", "sec5.routine_most_us", "sec5.devices_us", "sec5.turn_us",
				"fig3.bandwidth_mbps", "fig5.one_way_us", "fig5.level", "fig4.faster", "fig6.bobnet_intel",
				"fig6.bobnet_yellowfin", "fig6.tcp_intel", "fig6.tcp_yellowfin",
			}, OnCode, func(b *Bench) error { return repeatBobnet(b, FastEthernet(), Yellowfin()) }},
		},
		Figures: []string{"bobnet-figure3", "bobnet-figure4", "bobnet-figure5"},
	}
}

// pingPongSizes are the sizes of figures 3 to 5, in bytes.
var pingPongSizes = []int{4, 16, 64, 256, 1024, 4096, 10_240, 32_768, 102_400, 262_144, 1_048_576}

// pingPongRounds is the number of round trips that are counted for each size.
const pingPongRounds = 10

// oneWays returns the one-way times of all sizes, in microseconds.
func oneWays(b *Bench, e *Ethernet) (map[int]float64, error) {
	times := map[int]float64{}
	for _, size := range pingPongSizes {
		ns, err := pingPong(b.Context, e, size, pingPongRounds)
		if err != nil {
			return nil, err
		}
		times[size] = ns / 1000
	}
	return times, nil
}

// slope returns the cost of an additional byte between two sizes, in microseconds.
func slope(times map[int]float64, from, to int) float64 {
	return (times[to] - times[from]) / float64(to-from)
}

// tcpSlope computes the slope of TCP: full frames with the headers of IP and TCP, and with TCP's
// time stamps.
func tcpSlope(e *Ethernet) float64 {
	const payload = 1500 - 20 - 20 - 12
	return float64(e.line(fullFrame)) / payload / 1000
}

func repeatBobnet(b *Bench, fast, gigabit *Ethernet) error {
	f, err := oneWays(b, fast)
	if err != nil {
		return err
	}
	y, err := oneWays(b, gigabit)
	if err != nil {
		return err
	}
	b.Set("sec5.ethernet_mbps", fast.Bandwidth/1e6)
	b.Set("sec5.gigabit_mbps", gigabit.Bandwidth/1e6)
	b.Set("sec5.routine_least_us", fast.routine(shortestFrame).Seconds()*1e6)
	b.Set("sec5.routine_most_us", fast.routine(fullFrame).Seconds()*1e6)
	b.Set("sec5.devices_us", fast.Devices.Seconds()*1e6)
	b.Set("sec5.turn_us", fast.Turn.Seconds()*1e6)

	const long, longer = 102_400, 1_048_576
	b.Set("fig3.bandwidth_mbps", 8*longer/f[longer])
	b.Set("fig5.one_way_us", f[4])
	b.Holds("fig5.level", math.Abs(slope(f, 10_240, long)/slope(f, long, longer)-1) < 0.05)
	faster := f[longer] / y[longer]
	b.Holds("fig4.faster", faster > 1.5 && faster < 2.1)
	b.Set("fig6.bobnet_intel", slope(f, long, longer))
	b.Set("fig6.bobnet_yellowfin", slope(y, long, longer))
	b.Set("fig6.tcp_intel", tcpSlope(fast))
	b.Set("fig6.tcp_yellowfin", tcpSlope(gigabit))
	drawBobnet(b, f, y)
	return nil
}

// drawBobnet draws figures 3, 4 and 5. The paper publishes only the slopes of its curves. The
// slopes are drawn at the sizes where the curves have levelled off.
func drawBobnet(b *Bench, fast, gigabit map[int]float64) {
	latency := func(t map[int]float64) (s []plot.Point) {
		for _, n := range pingPongSizes {
			s = append(s, plot.Point{X: float64(n), Value: t[n]})
		}
		return s
	}
	bandwidth := func(t map[int]float64) (s []plot.Point) {
		for _, n := range pingPongSizes {
			s = append(s, plot.Point{X: float64(n), Value: 8 * float64(n) / t[n]})
		}
		return s
	}
	published := func(name, measured, item string, of func(slope, x float64) float64) plot.Series {
		s := plot.Series{Name: "paper, " + name, Published: true, Of: measured}
		for _, n := range pingPongSizes {
			if n >= 10_240 {
				s.Points = append(s.Points, plot.Point{X: float64(n), Value: of(b.paper.item(item).Published, float64(n))})
			}
		}
		return s
	}
	rate := func(slope, _ float64) float64 { return 8 / slope }
	time := func(slope, x float64) float64 { return slope * x }
	b.Draw(Figure{"bobnet-figure3", "Bandwidth of the 100 Mbit/s devices", []plot.Panel{{
		Title: "Bandwidth, 100 Mbit/s", Y: "Mbit/s", Linear: true,
		Series: []plot.Series{{Name: "ours", Points: bandwidth(fast)}, published("Bobnet", "ours", "fig6.bobnet_intel", rate), published("TCP", "", "fig6.tcp_intel", rate)},
	}}})
	b.Draw(Figure{"bobnet-figure4", "Bandwidth of the Gigabit device", []plot.Panel{{
		Title: "Bandwidth, Gigabit Ethernet", Y: "Mbit/s", Linear: true,
		Series: []plot.Series{{Name: "ours", Points: bandwidth(gigabit)}, published("Bobnet", "ours", "fig6.bobnet_yellowfin", rate), published("TCP", "", "fig6.tcp_yellowfin", rate)},
	}}})
	b.Draw(Figure{"bobnet-figure5", "One-way time of all devices", []plot.Panel{{
		Title: "One-way time", Y: "µs",
		Series: []plot.Series{
			{Name: "ours, 100 Mbit/s", Points: latency(fast)}, {Name: "ours, Gigabit", Points: latency(gigabit)},
			published("Bobnet, 100 Mbit/s", "ours, 100 Mbit/s", "fig6.bobnet_intel", time), published("Bobnet, Gigabit", "ours, Gigabit", "fig6.bobnet_yellowfin", time),
			published("TCP, 100 Mbit/s", "", "fig6.tcp_intel", time), published("TCP, Gigabit", "", "fig6.tcp_yellowfin", time),
		},
	}}})
}
