package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// conn carries messages with open files between parent and child.
type conn struct {
	unix *net.UnixConn
	// data and rights are those of the message that is being received, by one goroutine.
	data, rights []byte
}

// maxFiles is how many files may go with a message.
const maxFiles = 3

// newConn makes one of a file; the file is closed.
func newConn(file *os.File) (*conn, error) {
	defer file.Close()
	c, err := net.FileConn(file)
	if err != nil {
		return nil, fmt.Errorf("socket between sandbox and parent: %w", err)
	}
	return &conn{unix: c.(*net.UnixConn), data: make([]byte, maxMessage+1), rights: make([]byte, unix.CmsgSpace(maxFiles*4))}, nil
}

// pair is a connected pair of sockets that keep messages apart.
func pair() (parent, child *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socket between sandbox and parent: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "sandbox"), os.NewFile(uintptr(fds[1]), "parent"), nil
}

func (c *conn) send(message any, files ...*os.File) error {
	data, err := json.Marshal(message)
	if err != nil {
		return err
	}
	if len(data) > maxMessage {
		return fmt.Errorf("%d bytes of arguments, environment and mounts; %d are possible", len(data), maxMessage)
	}
	var rights []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, file := range files {
			fds[i] = int(file.Fd())
		}
		rights = unix.UnixRights(fds...)
	}
	_, _, err = c.unix.WriteMsgUnix(data, rights, nil)
	return err
}

// receive reads a message; io.EOF is the end. It is called by one goroutine.
func (c *conn) receive(message any) ([]*os.File, error) {
	n, nr, flags, _, err := c.unix.ReadMsgUnix(c.data, c.rights)
	if err != nil || n == 0 {
		return nil, errors.Join(io.EOF, err)
	}
	files, err := received(c.rights[:nr])
	if err == nil && flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		err = errors.New("message cut off")
	}
	if err == nil {
		err = json.Unmarshal(c.data[:n], message)
	}
	if err != nil {
		closeAll(files)
		return nil, err
	}
	return files, nil
}

func received(rights []byte) ([]*os.File, error) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return nil, err
	}
	var files []*os.File
	for _, message := range messages {
		fds, err := unix.ParseUnixRights(&message)
		if err != nil {
			return files, err
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
			files = append(files, os.NewFile(uintptr(fd), "passed"))
		}
	}
	return files, nil
}

func closeAll(files []*os.File) {
	for _, file := range files {
		file.Close()
	}
}
