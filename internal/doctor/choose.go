package doctor

import (
	"fmt"
	"slices"

	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/vipl"
)

// Choose returns the interface that vipl.Open would use with cfg, in which what
// the environment says is filled in already, and why that one. The interface is
// the zero one if the driver does without.
func Choose(cfg *vipl.Config) (chosen iface.Interface, why string, err error) {
	only := "no other is up"
	switch {
	case cfg.Driver == "shm" && cfg.Interface == "":
		return chosen, "driver shm needs none", nil
	case cfg.Driver == "udp":
		at, ip, err := iface.FindUDP(cfg.Interface)
		if err != nil {
			return chosen, "", err
		}
		chosen, only = at, fmt.Sprintf("no other with an IP address is up; its address is %v", ip)
	default:
		if chosen, err = iface.Find(cfg.Interface); err != nil {
			return chosen, "", err
		}
		list, _ := iface.List() // Find has just done so
		if slices.ContainsFunc(list, func(i iface.Interface) bool { return i.Bridge != "" }) {
			only += " but ports of bridges"
		}
	}
	if cfg.Interface != "" {
		return chosen, fmt.Sprintf("%q names it", cfg.Interface), nil
	}
	return chosen, only, nil
}

// raw reports whether a driver needs raw sockets.
func raw(driver string) bool { return driver != "udp" && driver != "shm" }
