"""Small URDFs, as text."""

ARM = """\
<?xml version="1.0"?>
<robot name="arm">
  <link name="base"/>
  <link name="upper">
    <inertial>
      <origin xyz="0.1 0 0.2" rpy="0.1 0.2 0.3"/>
      <mass value="2"/>
      <inertia ixx="0.02" ixy="0.001" ixz="0" iyy="0.03" iyz="0" izz="0.04"/>
    </inertial>
  </link>
  <link name="lower">
    <inertial>
      <origin xyz="0 0.1 0"/>
      <mass value="1"/>
      <inertia ixx="0.01" ixy="0" ixz="0" iyy="0.01" iyz="0" izz="0.01"/>
    </inertial>
    <visual><geometry><box size="0.1 0.2 0.3"/></geometry></visual>
    <collision>
      <origin xyz="0 0 0.1"/>
      <geometry><sphere radius="0.05"/></geometry>
    </collision>
  </link>
  <link name="tool">
    <inertial>
      <mass value="0.5"/>
      <inertia ixx="0.001" ixy="0" ixz="0" iyy="0.001" iyz="0" izz="0.001"/>
    </inertial>
  </link>
  <joint name="shoulder" type="revolute">
    <parent link="base"/>
    <child link="upper"/>
    <origin xyz="0 0 1" rpy="0 1.5707963267948966 0"/>
    <axis xyz="0 1 0"/>
    <limit lower="-1" upper="2" effort="10" velocity="3"/>
    <dynamics damping="0.5" friction="0.25"/>
  </joint>
  <joint name="elbow" type="prismatic">
    <parent link="upper"/>
    <child link="lower"/>
    <origin xyz="0 0 0.5"/>
    <axis xyz="1 1 0"/>
    <limit lower="0" upper="1" effort="20" velocity="1"/>
  </joint>
  <joint name="flange" type="fixed">
    <parent link="lower"/>
    <child link="tool"/>
    <origin xyz="0 0 0.25" rpy="0.5 0 0"/>
  </joint>
</robot>
"""


def line_of(text, part):
    """Return the number of the first line that contains `part`."""
    return text[: text.index(part)].count("\n") + 1
