package vipl_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/vipl"
)

// vethPair opens two NICs in two namespaces joined by veth and connects a VI
// of each.
func vethPair(t testing.TB, mtu int, cfg vipl.Config, attr *vipl.Attributes) (a, b *vipl.VI) {
	p := vethtest.New(t, mtu)
	var nics [2]*vipl.NIC
	for side := range nics {
		err := p.In(side, func() (err error) {
			c := cfg
			c.Interface = vethtest.Name
			nics[side], err = vipl.Open(&c)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nics[side].Close() })
	}
	l, err := nics[0].Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	if a, err = nics[0].CreateVI(attr, nil, nil); err != nil {
		t.Fatal(err)
	}
	if b, err = nics[1].CreateVI(attr, nil, nil); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		r, err := l.Wait(bg)
		if err == nil {
			err = r.Accept(bg, a)
		}
		done <- err
	}()
	if err := b.Connect(bg, l.Addr(), nil); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	l.Close()
	return a, b
}

// echoer sends every message of size bytes back until the VI fails.
func echoer(v *vipl.VI, size int) {
	in, _ := newBuffers(v.NIC(), 8, size)
	out, _ := newBuffers(v.NIC(), 1, size)
	for i := range in.descs {
		v.PostRecv(&in.descs[i])
	}
	for {
		d, err := v.RecvWait(bg)
		if err != nil {
			return
		}
		v.PostRecv(d)
		for {
			if _, err := v.SendDone(); err != nil {
				break
			}
		}
		if out.descs[0].Status.Done() || out.descs[0].Status == 0 {
			if v.PostSend(&out.descs[0]) != nil {
				v.SendWait(bg)
				v.PostSend(&out.descs[0])
			}
		}
	}
}

// BenchmarkPingPong measures half a round trip of 64 bytes.
func BenchmarkPingPong(b *testing.B) {
	for _, level := range levels {
		for _, spin := range []time.Duration{time.Second, -1} {
			name := level.String() + "/spin"
			if spin < 0 {
				name = level.String() + "/block"
			}
			b.Run(name, func(b *testing.B) {
				benchPingPong(b, level, spin, 64)
			})
		}
	}
}

func benchPingPong(b *testing.B, level reliability.Level, spin time.Duration, size int) {
	x, y := vethPair(b, 1500, vipl.Config{Spin: spin}, &vipl.Attributes{Reliability: level})
	go echoer(y, size)
	in, _ := newBuffers(x.NIC(), 8, size)
	out, _ := newBuffers(x.NIC(), 64, size)
	for i := range in.descs {
		x.PostRecv(&in.descs[i])
	}
	runtime.GC()
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if i >= len(out.descs) {
			if _, err := x.SendWait(bg); err != nil {
				b.Fatal(err, x.Err())
			}
		}
		if err := x.PostSend(&out.descs[i%len(out.descs)]); err != nil {
			b.Fatal(err)
		}
		d, err := x.RecvWait(bg)
		if err != nil {
			b.Fatal(err, x.Err())
		}
		x.PostRecv(d)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(2*b.N), "ns/one-way")
}
