package tun

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// devicePath is the kernel's file that creates TUN devices.
const devicePath = "/dev/net/tun"

// device is the kernel's interface. The kernel deletes it when the file is closed, including at the
// end of the process.
type device struct {
	*os.File
	*queue
	name string
}

// openDevice creates an interface with addresses. If name is empty, the kernel chooses one.
func openDevice(name string, mtu int, addrs []netip.Prefix) (d *device, err error) {
	fd, err := unix.Open(devicePath, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, deviceError(err)
	}
	defer func() {
		if err != nil {
			unix.Close(fd)
		}
	}()
	if name == "" {
		name = "bobnet%d"
	}
	req, err := unix.NewIfreq(name)
	if err != nil {
		return nil, fmt.Errorf("tun: interface name %q must have 1 to 15 bytes", name)
	}
	req.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI | unix.IFF_VNET_HDR | unix.IFF_TUN_EXCL)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, req); err != nil {
		if errors.Is(err, unix.EBUSY) {
			return nil, fmt.Errorf("tun: interface %s already exists (choose another name with --dev): %w", name, err)
		}
		return nil, deviceError(err)
	}
	name = req.Name()
	if err := setOffloads(fd); err != nil {
		return nil, fmt.Errorf("tun: %s: offloads: %w", name, err)
	}
	if err := configure(name, mtu, addrs); err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), devicePath)
	q, err := newQueue(f)
	if err != nil {
		return nil, fmt.Errorf("tun: %s: %w", devicePath, err)
	}
	return &device{f, q, name}, nil
}

// setOffloads makes the kernel leave checksums and segmentation to the other end. This includes
// segmentation of UDP datagrams if the kernel supports it (Linux 6.2).
func setOffloads(fd int) error {
	base := unix.TUN_F_CSUM | unix.TUN_F_TSO4 | unix.TUN_F_TSO6 | unix.TUN_F_TSO_ECN
	err := unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, base|unix.TUN_F_USO4|unix.TUN_F_USO6)
	if errors.Is(err, unix.EINVAL) {
		err = unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, base)
	}
	return err
}

// configure sets the interface's MTU and addresses, and brings it up.
func configure(name string, mtu int, addrs []netip.Prefix) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("tun: %s: %w", name, err)
	}
	if err := netlink.LinkSetMTU(link, mtu); err != nil {
		return fmt.Errorf("tun: %s: MTU %d: %w", name, mtu, err)
	}
	for _, p := range addrs {
		addr := &netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}}
		if p.Addr().Is6() {
			addr.Flags = unix.IFA_F_NODAD // Open has already checked for duplicates on the segment
		}
		if err := netlink.AddrAdd(link, addr); err != nil {
			return addressError(name, p, err)
		}
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("tun: %s: %w", name, err)
	}
	return nil
}

// addressError explains why an interface cannot have an address.
func addressError(name string, p netip.Prefix, err error) error {
	if p.Addr().Is6() && (errors.Is(err, unix.EACCES) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EAFNOSUPPORT)) {
		return fmt.Errorf("tun: %s: address %v: IPv6 is disabled on this host (use IPv4 addresses only, or enable IPv6: sysctl net.ipv6.conf.default.disable_ipv6=0, and the kernel option ipv6.disable): %w", name, p, err)
	}
	return fmt.Errorf("tun: %s: address %v: %w", name, p, err)
}

// deviceError adds the remedy to an error of the kernel.
func deviceError(err error) error {
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return fmt.Errorf("tun: creating an interface needs CAP_NET_ADMIN (run as root, or in a separate namespace: bobnet lab): %w", err)
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENXIO):
		return fmt.Errorf("tun: no %s (load the module: modprobe tun; in a container, pass --device %s): %w", devicePath, devicePath, err)
	}
	return fmt.Errorf("tun: %s: %w", devicePath, err)
}
