"""Where data is: errors of disks, and object stores."""
